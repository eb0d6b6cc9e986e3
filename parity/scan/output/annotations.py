"""A scan as GitHub's annotations: commands that a workflow's log turns into marks beside the lines.

https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from collections.abc import Iterator

from parity.scan.result import Scan, Severity
from parity.scan.rules import SCAN_RULES

COMMANDS_OF_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotations(scan: Scan) -> Iterator[str]:
    """Yields a line for each finding and each file that could not be read, the worst first."""
    for each in scan.unread:
        line = f",line={each.line}" if each.line else ""
        yield f"::error file={_property(each.path)}{line}::{_data(each.why)}"
    for finding in sorted(scan.findings, key=lambda each: -each.severity):
        place, rule = finding.place, SCAN_RULES[finding.rule]
        where = f"file={_property(place.path)},line={place.line},col={place.column}"
        title = _property(f"{finding.rule} {rule.title}")
        message = _data(f"{finding.message}. {rule.under_ddp}")
        yield f"::{COMMANDS_OF_GITHUB[finding.severity]} {where},title={title}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
