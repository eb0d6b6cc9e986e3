"""The tables of the report: levels, worst tensors, mapping."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from parity.judge.result import Check, Level, Result
from parity.mapping import Proposal

COLOURS = {"same": "green", "different": "red", "incomparable": "yellow", "not_run": "dim"}
NUMBERS = {"function": 1, "float32": 2, "trajectory": 3, "mixed": 4}
LEVELS = tuple(NUMBERS)
RUNS = {"fresh": "as the optimizers start", "init": "before training", "lockstep": "", "free": "free run"}
WORST = 10


def show_levels(result: Result) -> Group:
    """Shows who was compared, and the verdict of each level with what it rests on."""
    sides = Table.grid(padding=(0, 2))
    sides.add_row("reference", Text(who(result.reference)))
    sides.add_row("candidate", Text(who(result.candidate)))
    table = plain_table("level", "verdict", "rests on")
    for level in result.levels.values():
        style = COLOURS[level.verdict]
        table.add_row(
            Text(f"{NUMBERS[level.name]} {level.name}", "dim" if level.verdict == "not_run" else ""),
            Text(level.verdict.replace("_", " "), style),
            Text(level.reason, "dim" if level.verdict == "not_run" else ""),
        )
    return Group(sides, Text(), table)


def show_worst(level: Level) -> Group:
    """Shows the tensors of a level that came nearest to what is allowed, or went furthest beyond it."""
    judged = [check for check in level.checks if check.verdict != "not_run"]
    table = plain_table("step", "tensor", "of allowed", "of scale", "verdict")
    for check in sorted(judged, key=lambda check: check.multiple, reverse=True)[:WORST]:
        table.add_row(
            str(check.step),
            Text(name_of(check, level)),
            f"{check.multiple:.2g}",
            f"{check.of_scale:.2g}",
            Text(check.verdict, COLOURS[check.verdict]),
        )
    return Group(Text(f"Worst tensors of level {level.name}", "bold"), table)


def show_mapping(pairs: list[tuple[str, str, str, str]]) -> Table:
    """Shows which variable became which, by which transform, and how that was decided."""
    table = plain_table("reference", "candidate", "transform", "decided")
    for pair in pairs:
        table.add_row(*(Text(part) for part in pair))
    return table


def show_proposals(proposals: Sequence[Proposal]) -> Table:
    """Shows what variables may become, how sure that is, and what speaks for it."""
    table = plain_table("reference", "candidate", "transform", "confidence", "agreement")
    for each in proposals:
        told = ", ".join(f"{what} {score:.2f}" for what, score in each.scores.items())
        table.add_row(
            Text(each.reference),
            Text(" + ".join(each.candidate)),
            Text(each.transform),
            Text(f"{each.confidence:.2f}"),
            Text(told),
        )
    return table


def plain_table(*headings: str) -> Table:
    """Returns a table without lines whose cells are folded rather than cut, so that nothing is lost in 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_trimmed(console: Console, *parts: RenderableType) -> None:
    """Prints without the blanks that pad a table's lines to its width: nothing that a file or a diff should hold."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    console.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def name_of(check: Check, level: Level) -> str:
    """Returns a tensor's name, and the run it belongs to where that is not the level's usual one."""
    run = RUNS.get(check.run, check.run) if any(other.run == "lockstep" for other in level.checks) else ""
    return f"{check.key}, {run}" if run else check.key


def who(facts: dict[str, Any]) -> str:
    """Returns how many towers or ranks of which framework a side is."""
    count, noun = (facts["towers"], "tower") if "towers" in facts else (facts.get("ranks", "?"), "rank")
    return f"{count} {noun}{'' if count == 1 else 's'}, {facts.get('framework', 'unknown framework')}"
