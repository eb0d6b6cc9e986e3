"""A scan as SARIF 2.1.0, as GitHub's code scanning takes it.

https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
"""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from parity import __version__
from parity.report.atomic import appearing
from parity.scan.result import Finding, Scan, Unread
from parity.scan.rule_pages import page_as_markdown
from parity.scan.rules import SCAN_RULES, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 25_000  # of one run, that GitHub takes
UNREAD_RULE = "TP001"


def write_sarif(scan: Scan, path: Path) -> None:
    """Writes a scan, whole or not at all."""
    with appearing(path) as file:
        file.write((json.dumps(as_sarif(scan), indent=1) + "\n").encode("ascii"))


def as_sarif(scan: Scan) -> dict[str, Any]:
    """Returns a scan as a SARIF log: all rules, the findings, and what could not be read as notifications."""
    identifiers = list(SCAN_RULES)
    # The worst first, should there be more than is taken.
    findings = sorted(scan.findings, key=lambda each: -each.severity)[:MOST_RESULTS]
    run = {
        "tool": {
            "driver": {
                "name": "parity scan",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": "urn:tower-parity:docs:scan",
                "rules": [_rule(rule) for rule in SCAN_RULES.values()],
                "notifications": [{"id": UNREAD_RULE, "shortDescription": {"text": "A file could not be read whole."}}],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder that the scan was started in."}}},
        "invocations": [
            {
                "executionSuccessful": not scan.unread,
                "toolExecutionNotifications": [_notification(each) for each in scan.unread],
            }
        ],
        "results": [_result(each, identifiers) for each in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _sentence(rule.title)},
        "fullDescription": {"text": _plain(f"{rule.does} {rule.under_ddp}")},
        "help": {"text": _plain(page_as_markdown(rule)), "markdown": page_as_markdown(rule)},
        # A name and no address: the page itself is in `help`, wherever the documentation is.
        "helpUri": f"urn:tower-parity:docs:rules:{rule.id}",
        "defaultConfiguration": {"level": rule.severity.word},
        "properties": {"tags": ["tensorflow", "pytorch", "ddp"], "precision": "high" if rule.decided else "medium"},
    }


def _result(finding: Finding, identifiers: list[str]) -> dict[str, Any]:
    place = finding.place
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.line,
        "endColumn": max(place.end_column, place.column + 1),
        "snippet": {"text": place.text},
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": identifiers.index(finding.rule),
        "level": finding.severity.word,
        "message": {"text": f"{_sentence(finding.message)} {_plain(SCAN_RULES[finding.rule].under_ddp)}"},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(place.path), "region": region}}],
        "partialFingerprints": {"parityScan/v1": finding.fingerprint},
    }


def _notification(unread: Unread) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": _artifact(unread.path)}
    if unread.line:
        location["region"] = {"startLine": unread.line}
    return {
        "descriptor": {"id": UNREAD_RULE},
        "level": "error",
        "message": {"text": f"{unread.path} {unread.why}"},
        "locations": [{"physicalLocation": location}],
    }


def _artifact(path: str) -> dict[str, Any]:
    pure = PurePosixPath(path)
    uri = quote(path, safe="/", errors="replace")
    if pure.is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": re.sub(r"^(\./)+", "", uri), "uriBaseId": "SRCROOT"}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _plain(text: str) -> str:
    return text.replace("`", "")
