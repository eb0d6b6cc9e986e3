"""One report of several cases: the lines for a terminal, JSON, JUnit and Markdown."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from parity.cli.batch.outcome import Outcome, worst_code
from parity.report.atomic import appearing
from parity.report.markdown import MARKS, as_text

OUTCOMES_IN_ORDER = ("same", "different", "incomparable", "not run")
LONGEST_REASON = 200  # characters of a line's reason


def line_of(outcome: Outcome, width: int) -> str:
    """Returns the line of one case; `width` is that of the longest label."""
    why = outcome.why if len(outcome.why) <= LONGEST_REASON else f"{outcome.why[:LONGEST_REASON]} …"
    return f"{outcome.verdict:<13}{outcome.label:<{width}}  {outcome.seconds:5.0f} s  {why}".rstrip()


def summary_of(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Returns the last line: how many cases came out how."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in OUTCOMES_IN_ORDER if counts[verdict])
    return f"{len(outcomes)} cases: {listed}; {seconds:.0f} s; exit code {worst_code(outcomes)}"


def verdict_of(outcomes: Sequence[Outcome]) -> str:
    """Returns the verdict over all: different before incomparable before same."""
    found = {outcome.verdict for outcome in outcomes}
    return next((verdict for verdict in ("different", "incomparable", "not run") if verdict in found), "same")


def write_reports(outcomes: Sequence[Outcome], files: Mapping[str, Path], seconds: float) -> None:
    """Writes the reports that were asked for, each whole or not at all.

    Args:
      outcomes: of all cases, in order.
      files: by "json", "junit" and "markdown"; other kinds are each case's own.
      seconds: that all took.
    """
    writers = {"json": as_json, "junit": as_junit, "markdown": as_markdown}
    for name, path in files.items():
        if name in writers:
            with appearing(path) as file:
                file.write(writers[name](outcomes, seconds).encode("utf-8", "replace"))


def as_json(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Returns a JSON object: the verdict, the exit code, and under `cases` the JSON report of each by its label."""
    cases: dict[str, Any] = {
        outcome.label: outcome.result
        or {"verdict": outcome.verdict.replace(" ", "_"), "error": {"message": outcome.why}}
        for outcome in outcomes
    }
    found = {
        "verdict": verdict_of(outcomes).replace(" ", "_"),
        "exit_code": int(worst_code(outcomes)),
        "seconds": round(seconds, 1),
        "cases": cases,
    }
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def as_junit(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Returns the test suites of all cases in one file; a case that was not run is skipped."""
    suites = ElementTree.Element("testsuites", time=f"{seconds:.1f}")
    for outcome in outcomes:
        if outcome.junit:
            # Of our own: written by the command that ran the case.
            for suite in ElementTree.fromstring(outcome.junit.encode("utf-8")):
                suite.set("name", f"parity {outcome.label}")
                suite.set("time", f"{outcome.seconds:.1f}")
                suites.append(suite)
            continue
        kind, plural = ("skipped", "skipped") if outcome.code is None else ("error", "errors")
        suite = ElementTree.SubElement(
            suites, "testsuite", {"name": f"parity {outcome.label}", "tests": "1", plural: "1"}
        )
        case = ElementTree.SubElement(suite, "testcase", classname="parity", name=outcome.label)
        ElementTree.SubElement(case, kind, message=outcome.why or outcome.verdict)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def as_markdown(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Returns a table of all cases, then the report of each that is not the same, folded away."""
    mark = MARKS[verdict_of(outcomes).replace(" ", "_")]
    parts = [f"### {mark} {summary_of(outcomes, seconds)}", _table(outcomes)]
    for outcome in outcomes:
        if outcome.code and outcome.markdown:
            # The blank lines around it are what makes GitHub read Markdown inside of HTML.
            name = as_text(outcome.label)
            parts.append(f"<details><summary>{name}</summary>\n\n{outcome.markdown.strip()}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _table(outcomes: Sequence[Outcome]) -> str:
    lines = ["| case | verdict | first difference, and its cause |", "| --- | --- | --- |"]
    for outcome in outcomes:
        verdict = f"{MARKS[outcome.verdict.replace(' ', '_')]} {outcome.verdict}"
        lines.append(f"| {as_text(outcome.label)} | {verdict} | {as_text(outcome.why)} |")
    return "\n".join(lines)
