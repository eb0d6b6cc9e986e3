"""Prints a result for a person: the verdict first, then what it rests on, where and why the sides differ."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from parity.console import open_console
from parity.judge.result import Level, Result
from parity.report.since import show_since
from parity.report.view import (
    COLOURS,
    accounting,
    print_trimmed,
    show_causes,
    show_facts,
    show_first_difference,
    show_levels,
    show_mapping,
    show_worst,
)

WIDEST = 120  # columns: longer lines are hard to read, however wide the terminal is
# Figures that a reader needs only where the level is not the same.
ONLY_VERBOSE = ("accuracy of the gradients",)


def report(result: Result, title: str, quiet: bool = False, verbose: bool = False) -> None:
    """Prints the report on standard output, with colours where that is a terminal.

    Args:
      result: what was found.
      title: the case's name, or the traces'.
      quiet: print the line of the verdict only.
      verbose: also print all facts and notes, the ten worst tensors of each level and the mapping.
    """
    console = open_console()
    if console.width > WIDEST:
        console = open_console(width=WIDEST)
    if quiet:
        print_verdict(result, title, console)
    else:
        print_result(result, title, console, verbose)


def print_verdict(result: Result, title: str, console: Console) -> None:
    """Prints the verdict, and which levels it says nothing about, in one line however long."""
    line = Text.assemble("verdict: ", (result.verdict, f"bold reverse {COLOURS[result.verdict]}"))
    line.append(f"{result.verdict_in_words.removeprefix(result.verdict)}  {title}")
    left_out = [level.name for level in result.levels.values() if level.verdict == "not_run"]
    if left_out:
        line.append(f"  (not run: {', '.join(left_out)})", "dim")
    # Not wrapped by rich: whoever greps for the verdict gets it in one line.
    console.print(line, soft_wrap=True)


def print_result(result: Result, title: str, console: Console, verbose: bool = False) -> None:
    """Prints the whole report."""
    print_verdict(result, title, console)
    for part in _parts(result, verbose):
        print_trimmed(console, "", part)


def _parts(result: Result, verbose: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [show_levels(result)]
    if result.since:
        parts.append(show_since(result.since))
    notes = _notes(result, verbose)
    if notes:
        parts.append(Group(*notes))
    level = next((level for level in result.levels.values() if level.first_difference), None)
    if level and level.first_difference:
        parts.append(show_first_difference(level, level.first_difference))
    if result.causes:
        parts.append(show_causes(result.causes, result.first_difference))
    facts = show_facts(result, verbose)
    if facts and (verbose or result.verdict != "same"):
        parts.append(facts)
    if verbose:
        parts += [show_worst(level) for level in result.levels.values() if level.checks]
        parts += [show_mapping(result.pairs)] if result.pairs else []
    parts.append(Text(accounting(result), "dim"))
    return parts


def _notes(result: Result, verbose: bool) -> list[RenderableType]:
    found = [(f"{level.name}: {note}", level) for level in result.levels.values() for note in level.notes]
    shown = [text for text, level in found if verbose or _matters(text, level)]
    return [Padding(Text(text), (0, 0, 0, 2)) for text in [*shown, *(f"note: {note}" for note in result.notes)]]


def _matters(text: str, level: Level) -> bool:
    note = text.removeprefix(f"{level.name}: ")
    return (level.verdict != "same" and not level.first_difference) or not note.startswith(ONLY_VERBOSE)
