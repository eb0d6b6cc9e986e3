"""A scan for programs, and for `--baseline`."""

import json
from pathlib import Path
from typing import Any

from parity.report.atomic import appearing
from parity.scan.output.words import page_of
from parity.scan.result import Fact, Finding, Place, Scan, Severity
from parity.scan.rules import SCAN_RULES

SCAN_FORMAT = 1


def write_scan_json(scan: Scan, path: Path) -> None:
    """Writes a scan, whole or not at all."""
    with appearing(path) as file:
        file.write((json.dumps(as_dict(scan), indent=1, ensure_ascii=True) + "\n").encode("ascii"))


def as_dict(scan: Scan) -> dict[str, Any]:
    """Returns a scan as what JSON can hold."""
    return {
        "format": SCAN_FORMAT,
        "scanned": list(scan.roots),
        "files": scan.files,
        "lines": scan.lines,
        "counts": {each.word: scan.count(each) for each in Severity},
        "suppressed": scan.suppressed,
        "towers": [
            {
                "kind": each.kind,
                **_place(each.place),
                "function": each.function,
                "facts": [_fact(fact) for fact in each.facts],
            }
            for each in scan.towers
        ],
        "findings": [_finding(each) for each in scan.findings],
        "unread": [each._asdict() for each in scan.unread],
        "effort": [
            {
                "path": each.path,
                "size": each.size,
                "reasons": [_fact(fact) for fact in each.reasons],
                "taken": list(each.taken),
            }
            for each in scan.efforts
        ],
        "plan": [
            {"path": each.path, "commands": list(each.commands), "notes": list(each.notes)} for each in scan.plans
        ],
    }


def _place(place: Place) -> dict[str, Any]:
    return {"path": place.path, "line": place.line, "column": place.column, "end_column": place.end_column}


def _fact(fact: Fact) -> dict[str, Any]:
    return {"what": fact.what, "value": fact.value, **(_place(fact.place) if fact.place else {})}


def _finding(finding: Finding) -> dict[str, Any]:
    rule = SCAN_RULES[finding.rule]
    return {
        "rule": finding.rule,
        "name": rule.name,
        "level": finding.severity.word,
        **_place(finding.place),
        "message": finding.message,
        "under_ddp": rule.under_ddp,
        "port": rule.port,
        "decided": rule.decided,
        "hazards": list(rule.hazards),
        "page": page_of(finding.rule),
        "fingerprint": finding.fingerprint,
    }
