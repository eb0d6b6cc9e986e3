"""A scan as Markdown: for a comment on a pull request, or a page of a wiki."""

from collections.abc import Iterator
from pathlib import Path

from parity.report import markdown
from parity.report.atomic import appearing
from parity.report.markdown import as_table
from parity.scan.output.words import decided, rule_of, summary
from parity.scan.result import Scan, Severity
from parity.trace.escape import one_line

MARKS_OF_LEVELS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.NOTE: "ℹ️"}


def write_scan_markdown(scan: Scan, path: Path) -> None:
    """Writes a scan, whole or not at all."""
    with appearing(path) as file:
        file.write("\n\n".join(_parts(scan)).encode("utf-8", "replace") + b"\n")


def _parts(scan: Scan) -> Iterator[str]:
    yield "### What the source contains"
    yield as_text(summary(scan))
    if scan.towers:
        rows = [
            (
                as_code(str(each.place)),
                as_text(each.kind),
                as_text(each.fact("towers")),
                as_text(each.fact("combination")),
            )
            for each in scan.towers
        ]
        yield as_table(("where", "kind", "towers", "combination"), rows)
    if scan.findings:
        found = [
            (
                f"{MARKS_OF_LEVELS[each.severity]} {each.rule} {rule_of(each.rule).name}",
                as_code(str(each.place)),
                as_text(each.message),
                as_text(rule_of(each.rule).under_ddp),
                decided(rule_of(each.rule)),
            )
            for each in sorted(scan.findings, key=lambda each: -each.severity)
        ]
        yield as_table(("rule", "where", "what the code does", "under DDP", "decided"), found)
    for each in scan.unread:
        yield f"Not read: {as_code(each.path)} {as_text(each.why)}"
    if scan.efforts:
        efforts = [
            (as_code(each.path), each.size, as_text("; ".join(f"{fact.what}: {fact.value}" for fact in each.reasons)))
            for each in scan.efforts
        ]
        yield as_table(("script", "effort", "reasons"), efforts)
    for plan in scan.plans:
        commands = "\n".join(f"    {one_line(command)}" for command in plan.commands)
        yield f"Next for {as_code(plan.path)}:\n\n{commands}"
        yield from (as_text(note) for note in plan.notes)


def as_text(text: str) -> str:
    """Returns anybody's text as Markdown of one line, what is not printed as escapes."""
    return markdown.as_text(one_line(text))


def as_code(text: str) -> str:
    """Returns anybody's text as code of one line, what is not printed as escapes."""
    return markdown.as_code(one_line(text))
