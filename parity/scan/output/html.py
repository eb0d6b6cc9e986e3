"""A scan as one page that opens from disk, with no network: an inventory that can be filtered."""

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from parity.report.atomic import appearing
from parity.report.html.page import content_hash
from parity.scan.output.words import decided, page_of, rule_of, summary
from parity.scan.result import Scan, Severity


def write_scan_html(scan: Scan, path: Path) -> None:
    """Writes the page, whole or not at all."""
    page = as_page(scan).encode("utf-8", "replace")
    with appearing(path) as file:
        file.write(page)


def as_page(scan: Scan) -> str:
    """Returns the page: every text of the source escaped, and nothing in it allowed to load or to send anything."""
    style, script = _file("scan.css"), _file("scan.js")
    findings = [(each, rule_of(each.rule), page_of(each.rule), decided(rule_of(each.rule))) for each in scan.findings]
    return str(
        _template().render(
            scan=scan,
            summary=summary(scan),
            findings=findings,
            kinds=sorted({each.kind for each in scan.towers}),
            levels=[each.word for each in sorted(Severity, reverse=True)],
            rules=sorted({each.rule for each in scan.findings}),
            style=style,
            script=script,
            style_hash=content_hash(style),
            script_hash=content_hash(script),
        )
    )


def _file(name: str) -> str:
    return files("parity.scan").joinpath("page", name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _template() -> Any:
    # Loaded where a page is asked for: most scans print to a terminal alone.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("scan.html"))
