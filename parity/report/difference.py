"""Shows where two sides differ first, by how much, and why."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.report.tables import COLOURS, name_of

HEADINGS = {"different": "First difference", "incomparable": "First tensor that cannot be compared"}
ADVICE = (
    (
        "not finite, on both sides",
        "neither side's numbers mean anything from here on: look for a division by zero, a log of "
        "zero or an overflow at this step, or run fewer steps with --steps",
    ),
    ("not finite", "only one side breaks down here: look for an epsilon, a clip or a mask that the other side has"),
    (
        "has no such tensor",
        "have both sides return it under one name, or join the names in the case's [mapping] tables",
    ),
    ("has no step", "record both sides with as many steps"),
)


def show_first_difference(level: Level, first: FirstDifference) -> Group:
    """Shows the first tensor that is not the same: its place, both values, how far apart they are and what is allowed."""
    check = first.check
    style = COLOURS[check.verdict]
    heading = Text.assemble(
        (HEADINGS[check.verdict], f"bold {style}"), f": step {check.step}, ", (name_of(check, level), "bold")
    )
    rows = _rows(level, first)
    if rows.row_count == 0:
        return Group(heading)
    return Group(heading, Padding(rows, (0, 0, 0, 2)))


def show_causes(causes: Sequence[Cause]) -> Group:
    """Shows every cause with its evidence and its mend, best first."""
    shown: list[RenderableType] = []
    for place, cause in enumerate(causes):
        shown += [Text()] if place else []
        shown.append(Text.assemble(("Or" if place else "Cause", "bold"), f": {cause.title}"))
        shown.append(Padding(Text(cause.evidence), (0, 0, 0, 2)))
        shown.append(Padding(Text.assemble(("mend: ", "bold green"), cause.fix), (0, 0, 0, 2)))
    return Group(*shown)


def _rows(level: Level, first: FirstDifference) -> Table:
    check, worst = first.check, first.worst
    table = Table.grid(padding=(0, 2))
    if check.note:
        table.add_row("what", Text(check.note))
    if worst:
        at = f"  at {list(worst.index)}" if worst.index else ""
        table.add_row("reference", Text(f"{worst.reference:.9g}{at}"))
        table.add_row("candidate", Text(f"{worst.candidate:.9g}"))
        if check.allowed > 0:
            table.add_row("apart", Text(f"{worst.max_abs:.3g}: {worst.max_rel:.2g} relative, {worst.ulp:.3g} ulp"))
    if check.allowed > 0:
        table.add_row("the tensor", Text(f"{check.difference:.3g} apart, {check.of_scale:.2g} of its scale"))
        table.add_row("allowed", Text(f"{check.allowed:.3g}; this is {check.multiple:.3g} times as much"))
    advice = _advice(check)
    if advice:
        table.add_row("do", Text(advice))
    others = sum(1 for other in level.checks if other.verdict == check.verdict) - 1
    if others:
        what = "different" if check.verdict == "different" else "not comparable"
        table.add_row("after it", Text(f"{others:,} more tensor{'s' if others > 1 else ''} {what}", "dim"))
    return table


def _advice(check: Check) -> str:
    return next((advice for part, advice in ADVICE if part in check.note), "")
