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


def headings(causes: Sequence[Cause], first: FirstDifference | None) -> list[tuple[str, Cause]]:
    """Returns every cause under its heading: those of the first difference, and then those of others.

    Args:
      causes: best first.
      first: the first difference; None where all of them are of one.
    """
    own = [cause for cause in causes if first is None or cause.is_of(first)]
    others = [cause for cause in causes if cause not in own]
    told = [("Or" if place else "Cause", cause) for place, cause in enumerate(own)]
    return told + [(f"Further, of {_where(cause)}", cause) for cause in others]


def _where(cause: Cause) -> str:
    return f"{cause.explains.key} at step {cause.explains.step}" if cause.explains else "another tensor"


def show_causes(causes: Sequence[Cause], first: FirstDifference | None = None) -> Group:
    """Shows every cause with its evidence, what it explains and its mend, best first; those of other differences last."""
    shown: list[RenderableType] = []
    for place, (heading, cause) in enumerate(headings(causes, first)):
        shown += [Text()] if place else []
        shown.append(Text.assemble((heading, "bold"), f": {cause.title}"))
        shown.append(Padding(Text(cause.evidence), (0, 0, 0, 2)))
        if cause.explains:
            shown.append(Padding(Text.assemble(("explains: ", "bold"), cause.explains.sentence), (0, 0, 0, 2)))
        shown.append(Padding(Text.assemble(("mend: ", "bold green"), cause.fix), (0, 0, 0, 2)))
    return Group(*shown)


def first_rows(level: Level, first: FirstDifference) -> list[tuple[str, str]]:
    """Returns what there is to say of a first difference, as pairs of a term and its text."""
    check, worst = first.check, first.worst
    rows: list[tuple[str, str]] = []
    if check.note:
        rows.append(("what", check.note))
    if first.where:
        rows.append(("where", first.where))
    sides = zip(("in the reference", "in the port"), first.lines, strict=True)
    rows += [(side, line.shown) for side, line in sides if line is not None]
    if worst:
        at = f"  at {list(worst.index)}" if worst.index else ""
        rows += [("reference", f"{worst.reference:.9g}{at}"), ("candidate", f"{worst.candidate:.9g}")]
        if check.allowed > 0:
            rows.append(("apart", f"{worst.max_abs:.3g}: {worst.max_rel:.2g} relative, {worst.ulp:.3g} ulp"))
    if check.allowed > 0:
        rows.append(("the tensor", f"{check.difference:.3g} apart, {check.of_scale:.2g} of its scale"))
        rows.append(("allowed", f"{check.allowed:.3g}; this is {check.multiple:.3g} times as much"))
    advice = _advice(check)
    if advice:
        rows.append(("do", advice))
    others = sum(1 for other in level.checks if other.verdict == check.verdict) - 1
    if others:
        what = "different" if check.verdict == "different" else "not comparable"
        rows.append(("after it", f"{others:,} more tensor{'s' if others > 1 else ''} {what}"))
    return rows


def _rows(level: Level, first: FirstDifference) -> Table:
    table = Table.grid(padding=(0, 2))
    for term, text in first_rows(level, first):
        table.add_row(term, Text(text, "dim" if term == "after it" else ""))
    return table


def _advice(check: Check) -> str:
    return next((advice for part, advice in ADVICE if part in check.note), "")
