"""A scan as GitHub's annotations: commands that a workflow's log turns into marks beside the lines.

https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from collections.abc import Iterator

from parity.report.github import in_message, in_property
from parity.scan.result import Scan, Severity
from parity.scan.rules import SCAN_RULES

COMMANDS_OF_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotations(scan: Scan) -> Iterator[str]:
    """Yields a line for each finding and each file that could not be read, the worst first."""
    for each in scan.unread:
        line = f",line={each.line}" if each.line else ""
        yield f"::error file={in_property(each.path)}{line}::{in_message(each.why)}"
    for finding in sorted(scan.findings, key=lambda each: -each.severity):
        place, rule = finding.place, SCAN_RULES[finding.rule]
        where = f"file={in_property(place.path)},line={place.line},col={place.column}"
        title = in_property(f"{finding.rule} {rule.title}")
        message = in_message(f"{finding.message}. {rule.under_ddp}")
        yield f"::{COMMANDS_OF_GITHUB[finding.severity]} {where},title={title}::{message}"
