"""A scan for people, for continuous integration and for programs."""

from parity.scan.output.annotations import annotations
from parity.scan.output.as_json import write_scan_json
from parity.scan.output.html import write_scan_html
from parity.scan.output.junit import write_scan_junit
from parity.scan.output.markdown import write_scan_markdown
from parity.scan.output.sarif import write_sarif
from parity.scan.output.terminal import print_scan

__all__ = [
    "annotations",
    "print_scan",
    "write_sarif",
    "write_scan_html",
    "write_scan_json",
    "write_scan_junit",
    "write_scan_markdown",
]
