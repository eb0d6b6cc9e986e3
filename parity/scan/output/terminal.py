"""A scan for a person at a terminal: inventory, findings with their lines, effort, and the next commands."""

from rich.console import Console
from rich.text import Text

from parity.console import open_console
from parity.scan.output.words import decided, rule_of, summary
from parity.scan.result import Fact, Finding, Place, Scan, Severity, Towers
from parity.trace.escape import one_line

LEVEL_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
WIDEST_SOURCE = 110  # columns of a source line that is shown: around what is meant


def print_scan(scan: Scan, quiet: bool = False, verbose: bool = False) -> None:
    """Prints a scan on standard output, with colours where that is a terminal.

    Args:
      scan: what was found.
      quiet: print the summary only.
      verbose: also print the notes with what they mean, and what `parity port` takes.
    """
    console = open_console(soft_wrap=True)
    if not quiet:
        for towers in scan.towers:
            _print_towers(console, towers)
        for finding in scan.findings:
            _print_finding(console, finding, verbose)
        _print_work(console, scan, verbose)
    for each in scan.unread:
        where = f"{each.path}:{each.line}" if each.line else each.path
        console.print(Text.assemble((f"{one_line(where)}: ", "bold"), ("not read: ", "bold red"), one_line(each.why)))
    console.print(Text(summary(scan), "bold"))


def _print_towers(console: Console, towers: Towers) -> None:
    within = f" in {one_line(towers.function)}()" if towers.function else ""
    console.print(Text.assemble((one_line(str(towers.place)), "bold"), f": {one_line(towers.kind)}{within}"))
    for fact in towers.facts:
        console.print(_fact(fact, towers.place.path))
    console.print()


def _fact(fact: Fact, path: str) -> Text:
    text = Text.assemble("    ", (f"{fact.what}: ", "dim"), one_line(fact.value))
    if fact.place is not None:
        where = f"line {fact.place.line}" if fact.place.path == path else str(fact.place)
        text.append(f"  ({one_line(where)})", "dim")
    return text


def _print_finding(console: Console, finding: Finding, verbose: bool) -> None:
    rule = rule_of(finding.rule)
    place = finding.place
    console.print(
        Text.assemble(
            (one_line(f"{place.path}:{place.line}:{place.column}"), "bold"),
            ": ",
            (f"{finding.severity.word} {finding.rule}", LEVEL_COLOURS[finding.severity]),
            f" {rule.name}: {one_line(finding.message)}",
        )
    )
    for line in source_lines(place):
        console.print(Text(f"    {line}"))
    if finding.severity > Severity.NOTE or verbose:
        console.print(Text.assemble("    ", ("under DDP: ", "dim"), rule.under_ddp))
        console.print(Text.assemble("    ", ("port: ", "dim"), rule.port))
    if not rule.decided:
        console.print(Text(f"    {decided(rule)}", "dim"))
    console.print()


def source_lines(place: Place) -> list[str]:
    """Returns the line of a place and one with a caret below what is meant, cut to what a terminal has room for."""
    if not place.text.strip():
        return []
    shown = place.text.replace("\t", " ")
    cut = (
        max(0, place.column - 1 - WIDEST_SOURCE // 2)
        if len(shown) > WIDEST_SOURCE
        else len(shown) - len(shown.lstrip())
    )
    cut = min(cut, place.column - 1)
    line = shown[cut : cut + WIDEST_SOURCE].rstrip()
    # What is not printed is written as an escape, which is longer than one letter.
    before = one_line(line[: place.column - 1 - cut])
    meant = one_line(line[place.column - 1 - cut : max(place.end_column - 1 - cut, place.column - cut)])
    return [one_line(line), " " * len(before) + "^" + "~" * (len(meant) - 1)]


def _print_work(console: Console, scan: Scan, verbose: bool) -> None:
    for effort in scan.efforts:
        console.print(Text.assemble((one_line(effort.path), "bold"), f": effort {effort.size}"))
        for reason in effort.reasons:
            console.print(_fact(reason, effort.path))
        if not effort.reasons:
            console.print(Text("    nothing that `parity port` does not take was seen", "dim"))
        if verbose and effort.taken:
            console.print(Text.assemble("    ", ("taken as they are: ", "dim"), one_line(", ".join(effort.taken))))
        console.print()
    for plan in scan.plans:
        console.print(Text.assemble((one_line(plan.path), "bold"), ": next"))
        for command in plan.commands:
            console.print(Text(f"    {one_line(command)}"))
        for note in plan.notes:
            console.print(Text(f"    {one_line(note)}", "dim"))
        console.print()
