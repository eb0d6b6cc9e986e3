"""Sentences that several outputs have in common."""

from parity.scan.result import Scan, Severity
from parity.scan.rules import SCAN_RULES, Rule


def summary(scan: Scan) -> str:
    """Returns what was looked at and found, in one sentence."""
    counts = ", ".join(f"{counted(scan.count(each), each.word)}" for each in sorted(Severity, reverse=True))
    places = counted(len(scan.towers), "place that builds towers", "places that build towers")
    known = f"; {scan.suppressed} known" if scan.suppressed else ""
    unread = f"; {counted(len(scan.unread), 'file')} not read whole" if scan.unread else ""
    return f"{counted(scan.files, 'file')}, {scan.lines:,} lines: {places}; {counts}{known}{unread}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def decided(rule: Rule) -> str:
    """Returns who decides, the source or a recording."""
    return "decided from the source" if rule.decided else "not decided here: record it"


def page_of(identifier: str) -> str:
    """Returns where a rule's page is in this project."""
    return f"docs/rules/{identifier}.md"


def rule_of(identifier: str) -> Rule:
    """Returns a rule."""
    return SCAN_RULES[identifier]
