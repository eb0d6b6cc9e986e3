"""Prints a result for a person: verdict, first difference, cause, facts, on one screen."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parity.judge.result import Cause, Check, FirstDifference, Level, Result

COLOURS = {"same": "green", "different": "red", "incomparable": "yellow", "not_run": "dim"}
NUMBERS = {"function": 1, "float32": 2, "trajectory": 3, "mixed": 4}
FACTS = ("framework", "optimizer", "combine", "batch_norm_updates", "variables_on", "backend", "threads", "flags")


def print_result(result: Result, title: str, console: Console) -> None:
    """Prints the whole report."""
    console.print(f"[bold]{escape(title)}[/bold]: {_who(result.reference)}  against  {_who(result.candidate)}")
    console.print()
    console.print(_levels(result))
    for level in result.levels.values():
        for note in level.notes:
            console.print(f"  {level.name}: {escape(note)}", style="dim" if level.verdict == "same" else "")
    for note in result.notes:
        console.print(f"  note: {escape(note)}")
    shown = next((level for level in result.levels.values() if level.first_difference), None)
    if shown and shown.first_difference:
        console.print()
        _print_difference(shown, shown.first_difference, console)
        for cause in result.causes:
            _print_cause(cause, console)
    console.print()
    console.print(_accounting(result), style="dim")
    console.print(f"verdict: [{COLOURS[result.verdict]} bold]{result.verdict}[/]{escape(_left_out(result))}")


def print_facts(result: Result, console: Console) -> None:
    """Prints what the two sides have in common and where they differ on purpose."""
    table = Table("fact", "reference", "candidate", box=None, pad_edge=False)
    for name in FACTS:
        one, other = result.reference.get(name), result.candidate.get(name)
        if one is not None or other is not None:
            table.add_row(name, escape(_plain(one)), escape(_plain(other)))
    console.print(table)


def print_mapping(pairs: list[tuple[str, str, str, str]], console: Console) -> None:
    """Prints which variable became which, how its layout changes, and how that was decided."""
    table = Table("reference", "candidate", "layout", "decided", box=None, pad_edge=False)
    for pair in pairs:
        table.add_row(*(escape(part) for part in pair))
    console.print(table)


def _who(facts: dict[str, Any]) -> str:
    count, noun = (facts["towers"], "tower") if "towers" in facts else (facts.get("ranks", "?"), "rank")
    return escape(f"{count} {noun}{'' if count == 1 else 's'} ({facts.get('framework', 'unknown')})")


def _levels(result: Result) -> Table:
    table = Table("level", "verdict", "rests on", box=None, pad_edge=False)
    for level in result.levels.values():
        colour = COLOURS[level.verdict]
        table.add_row(
            f"{NUMBERS[level.name]} {level.name}",
            f"[{colour}]{level.verdict.replace('_', ' ')}[/]",
            f"[dim]{escape(level.reason)}[/]" if level.verdict == "not_run" else escape(level.reason),
        )
    return table


def _print_difference(level: Level, first: FirstDifference, console: Console) -> None:
    check = first.check
    style = COLOURS[check.verdict]
    console.print(f"[{style} bold]first difference[/]: step {check.step}, [bold]{escape(check.key)}[/]{_run(check)}")
    if check.note:
        console.print(f"  {escape(check.note)}")
    if first.worst:
        at = f" at {list(first.worst.index)}" if first.worst.index else ""
        console.print(
            escape(
                f"  reference {first.worst.reference:.9g}, candidate {first.worst.candidate:.9g}{at}: "
                f"{first.worst.max_abs:.3g} apart ({first.worst.max_rel:.2g} relative, {first.worst.ulp:.3g} ulp)"
            )
        )
    if check.allowed > 0:
        console.print(
            escape(
                f"  as a whole {check.difference:.3g} apart ({check.of_scale:.2g} of its scale), "
                f"{check.multiple:.3g} times what {level.name} rounding allows"
            )
        )
    others = sum(1 for other in level.checks if other.verdict == check.verdict) - 1
    if others:
        console.print(escape(f"  and {others:,} more tensors {check.verdict} after it"), style="dim")


def _print_cause(cause: Cause, console: Console) -> None:
    console.print(f"[bold]cause[/]: {escape(cause.title)}")
    console.print(f"  {escape(cause.evidence)}")
    console.print(f"  [green]mend[/]: {escape(cause.fix)}")


def _accounting(result: Result) -> str:
    checks = [check for level in result.levels.values() for check in level.checks]
    judged = [check for check in checks if check.verdict != "not_run"]
    zero = sum(1 for check in judged if check.size == 0.0)
    trivial = sum(1 for check in judged if 0.0 < check.size <= check.allowed)
    return (
        f"compared {len(judged):,} tensors; skipped {len(checks) - len(judged):,}; all zero {zero:,}; "
        f"smaller than their own allowance {trivial:,}"
    )


def _left_out(result: Result) -> str:
    names = [level.name for level in result.levels.values() if level.verdict == "not_run"]
    return f" (not run: {', '.join(names)})" if names else ""


def _run(check: Check) -> str:
    return {"init": ", before training", "free": ", in the free run"}.get(check.run, "")


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(part)}" for name, part in value.items())
    return "" if value is None else str(value)
