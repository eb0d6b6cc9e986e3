"""Shows what a verdict would have caught."""

from typing import Any

from rich.console import Group
from rich.text import Text

from parity.console import open_console
from parity.experiment.power import Power
from parity.report.plain_table import PlainTable
from parity.report.view import print_trimmed


def show_power(power: Power, quiet: bool = False) -> None:
    """Prints the planted bugs, where each was found and what it was called, and the false alarms of clean repeats.

    Args:
      power: what planted bugs showed.
      quiet: print the totals only, in one line.
    """
    console = open_console()
    if quiet:
        console.print(summary(power), soft_wrap=True)
        return
    table = PlainTable("planted in this case", "found", "called")
    for outcome in power.outcomes:
        found = outcome.where if outcome.detected else "NOT FOUND"
        # Found and called by another name is a verdict that holds and advice that misleads: it is told apart from no
        # name.
        called = outcome.cause if outcome.named else f"another name: {outcome.cause}" if outcome.cause else "no name"
        table.add_row(outcome.probe.words, found, called)
    print_trimmed(console, "", Group(Text("Would it have caught it?", "bold"), table))
    print_trimmed(console, "", summary(power))


def summary(power: Power) -> str:
    """Returns the totals in one line."""
    planted = len(power.outcomes)
    detected = sum(outcome.detected for outcome in power.outcomes)
    named = sum(outcome.named for outcome in power.outcomes)
    return (
        f"{detected} of {planted} planted bugs found, {named} called by their name; "
        f"{power.false_alarms} false alarms in {power.repeats} clean repeats"
    )


def power_as_json(power: Power) -> dict[str, Any]:
    """Returns the same as JSON values."""
    return {
        "planted": [
            {
                "bug": outcome.probe.mutation,
                "size": outcome.probe.size,
                "detected": outcome.detected,
                "first_difference": outcome.where,
                "named": outcome.named,
                "cause": outcome.cause,
            }
            for outcome in power.outcomes
        ],
        "clean_repeats": power.repeats,
        "false_alarms": power.false_alarms,
    }
