"""Findings that are known: by a comment in the source, or by a report of an earlier scan."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from parity.scan.result import Finding
from parity.trace import read_json

COMMENT = re.compile(r"#\s*parity:\s*ignore(?:\[([\w\s,]*)\])?")
MOST_BASELINE_BYTES = 64 << 20


class BaselineError(ValueError):
    """A baseline cannot be read."""


def is_suppressed(finding: Finding, lines: Sequence[str]) -> bool:
    """Whether a comment leaves a finding out: `# parity: ignore` or `# parity: ignore[TP101]`.

    It stands on the finding's line, or alone on the line before it.

    Args:
      finding: with its line.
      lines: of its file.
    """
    line = finding.place.line
    above = lines[line - 2] if 1 < line <= len(lines) + 1 else ""
    for text in (lines[line - 1] if 0 < line <= len(lines) else "", above if above.lstrip().startswith("#") else ""):
        for match in COMMENT.finditer(text):
            rules = [each.strip() for each in (match[1] or "").split(",") if each.strip()]
            if not rules or finding.rule in rules:
                return True
    return False


def without_suppressed(findings: Iterable[Finding], sources: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Returns the findings that no comment leaves out."""
    return [each for each in findings if not is_suppressed(each, sources.get(each.place.path, ()))]


def read_baseline(path: Path) -> frozenset[str]:
    """Returns the fingerprints of an earlier scan.

    Args:
      path: what `parity scan --json` wrote.

    Raises:
      BaselineError: it cannot be read, or is no such file.
    """
    try:
        found = read_json(str(path), MOST_BASELINE_BYTES)
        prints = [each["fingerprint"] for each in found["findings"]]
        if not all(isinstance(each, str) for each in prints):
            raise TypeError
    except OSError as error:
        raise BaselineError(
            f"--baseline: expected what `parity scan --json` wrote at {path}, got: {error.strerror}. Write it first."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise BaselineError(
            f"--baseline: expected what `parity scan --json` wrote at {path}, got another file. Write it anew."
        ) from None
    return frozenset(prints)
