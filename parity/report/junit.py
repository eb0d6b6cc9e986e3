"""Writes a result as JUnit XML, for the test report of a continuous integration: a test case per level."""

import re
from pathlib import Path
from xml.etree import ElementTree

from parity.judge.result import Level, Result
from parity.report.atomic import appearing
from parity.report.provenance import rows as origin_rows
from parity.report.view import HEADINGS, LEVEL_NUMBERS, LEVELS_IN_ORDER, accounting, first_rows, headings, name_of

# What XML 1.0 has no way to write, escaped or not: https://www.w3.org/TR/xml/#charsets
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ELEMENTS = {"different": "failure", "incomparable": "error", "not_run": "skipped"}


def write_junit(result: Result, path: Path, title: str) -> None:
    """Writes a test suite whose cases are the levels, whole or not at all.

    A level that is different fails, one that could not be compared is an error, one that was not run is skipped.

    Args:
      result: what was found.
      path: the XML file to make.
      title: the case's name, or the traces'.
    """
    suite = ElementTree.Element("testsuite", name=_writable(f"parity {title}"), tests=str(len(result.levels)))
    for verdict, plural in (("different", "failures"), ("incomparable", "errors"), ("not_run", "skipped")):
        suite.set(plural, str(sum(1 for level in result.levels.values() if level.verdict == verdict)))
    if result.provenance:
        properties = ElementTree.SubElement(suite, "properties")
        for term, text in origin_rows(result.provenance):
            ElementTree.SubElement(properties, "property", name=term, value=_writable(text))
        suite.set("timestamp", result.provenance["time"][:19])  # as the schema of JUnit has it, without a zone
    for level in result.levels.values():
        _add_case(suite, level, title)
    notes = [f"verdict: {result.verdict_in_words}", *(f"note: {note}" for note in result.notes), accounting(result)]
    ElementTree.SubElement(suite, "system-out").text = _writable("\n".join(notes))
    _write(suite, path)


def write_junit_failure(message: str, traceback: str, path: Path) -> None:
    """Writes a test suite in which every level is an error: nothing could be compared.

    Args:
      message: why.
      traceback: of what went wrong, or "".
      path: the XML file to make.
    """
    count = str(len(LEVELS_IN_ORDER))
    suite = ElementTree.Element("testsuite", name="parity", tests=count, failures="0", errors=count, skipped="0")
    for name in LEVELS_IN_ORDER:
        case = ElementTree.SubElement(suite, "testcase", classname="parity", name=f"{LEVEL_NUMBERS[name]} {name}")
        error = ElementTree.SubElement(case, "error", type="incomparable", message=_writable(message))
        error.text = _writable(traceback or message)
    _write(suite, path)


def _add_case(suite: ElementTree.Element, level: Level, title: str) -> None:
    name = f"{LEVEL_NUMBERS[level.name]} {level.name}"
    # Jenkins, for one, groups by what comes before the last dot of a class name.
    case = ElementTree.SubElement(suite, "testcase", classname=_writable(f"parity.{title}"), name=name)
    if level.verdict in ELEMENTS:
        message = _headline(level) if level.verdict != "not_run" else level.reason
        found = ElementTree.SubElement(case, ELEMENTS[level.verdict], message=_writable(message))
        if level.verdict != "not_run":
            found.set("type", level.verdict)
            found.text = _writable(_told(level))
    notes = [level.reason, *level.notes]
    ElementTree.SubElement(case, "system-out").text = _writable("\n".join(notes))


def _headline(level: Level) -> str:
    first = level.first_difference
    if first is None:
        return level.reason
    cause = f": {level.causes[0].title}" if level.causes else ""
    return f"{HEADINGS[first.check.verdict]}: step {first.check.step}, {name_of(first.check, level)}{cause}"


def _told(level: Level) -> str:
    lines = [_headline(level), level.reason]
    if level.first_difference:
        lines += [f"{term}: {text}" for term, text in first_rows(level, level.first_difference)]
    for heading, cause in headings(level.causes, level.first_difference):
        lines += ["", f"{heading.lower()}: {cause.title}", cause.evidence]
        lines += [f"explains: {cause.explains.sentence}"] if cause.explains else []
        lines += [f"fix: {cause.fix}"]
    return "\n".join(lines)


def _write(suite: ElementTree.Element, path: Path) -> None:
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    whole = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n"
    with appearing(path) as file:
        file.write(whole)


def _writable(text: str) -> str:
    return UNWRITABLE.sub("�", text)
