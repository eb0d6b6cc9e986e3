"""A scan as JUnit XML: a test case for each rule with findings, and one for each file that could not be read."""

from pathlib import Path
from xml.etree import ElementTree

from parity.report.atomic import appearing
from parity.report.junit import UNWRITABLE
from parity.scan.output.words import summary
from parity.scan.result import Scan, Severity
from parity.scan.rules import SCAN_RULES


def write_scan_junit(scan: Scan, path: Path, fails: Severity | None) -> None:
    """Writes a test suite, whole or not at all.

    Args:
      scan: what was found.
      path: the XML file to make.
      fails: findings from here on fail; None of those that never do.
    """
    failing = {each.rule for each in scan.findings if fails is not None and each.severity >= fails}
    suite = ElementTree.Element("testsuite", name="parity scan", tests=str(len(SCAN_RULES) + len(scan.unread)))
    suite.set("failures", str(len(failing)))
    suite.set("errors", str(len(scan.unread)))
    for rule in SCAN_RULES.values():
        case = ElementTree.SubElement(suite, "testcase", classname="parity.scan", name=f"{rule.id} {rule.name}")
        lines = [f"{each.place}: {each.message}" for each in scan.findings if each.rule == rule.id]
        if rule.id in failing:
            failure = ElementTree.SubElement(case, "failure", type=rule.severity.word, message=_writable(rule.title))
            failure.text = _writable("\n".join([*lines, "", rule.under_ddp, rule.port]))
        elif lines:
            ElementTree.SubElement(case, "system-out").text = _writable("\n".join(lines))
    for each in scan.unread:
        case = ElementTree.SubElement(suite, "testcase", classname="parity.scan", name=_writable(f"read {each.path}"))
        ElementTree.SubElement(case, "error", type="unread", message=_writable(each.why))
    ElementTree.SubElement(suite, "system-out").text = _writable(summary(scan))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    with appearing(path) as file:
        file.write(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")


def _writable(text: str) -> str:
    return UNWRITABLE.sub("�", text)
