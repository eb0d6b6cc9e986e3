"""A scan as one page that opens from disk, with no network: an inventory that can be filtered."""

from pathlib import Path

from parity.report.atomic import appearing
from parity.report.html.template import page_file, render
from parity.scan.output.words import decided, page_of, rule_of, summary
from parity.scan.result import Scan, Severity


def write_scan_html(scan: Scan, path: Path) -> None:
    """Writes the page, whole or not at all."""
    page = as_page(scan).encode("utf-8", "replace")
    with appearing(path) as file:
        file.write(page)


def as_page(scan: Scan) -> str:
    """Returns the page: every text of the source escaped, and nothing in it allowed to load or to send anything."""
    style, script = page_file("parity.scan", "scan.css"), page_file("parity.scan", "scan.js")
    findings = [(each, rule_of(each.rule), page_of(each.rule), decided(rule_of(each.rule))) for each in scan.findings]
    return render(
        page_file("parity.scan", "scan.html"),
        style,
        script,
        scan=scan,
        summary=summary(scan),
        findings=findings,
        kinds=sorted({each.kind for each in scan.towers}),
        levels=[each.word for each in sorted(Severity, reverse=True)],
        rules=sorted({each.rule for each in scan.findings}),
    )
