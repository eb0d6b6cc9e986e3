"""Reports and lessons pass axe, rules of accessibility, in light and dark, wide and narrow."""

import pytest
from support.made_graph import FACTS, recorded

from pages.axe import broken_rules, violations
from parity.cli.show import explain_hazard
from parity.judge import Closer, Histogram, Place
from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.report import write_html
from parity.report.provenance import provenance
from parity.report.towers import graph_as_html
from parity.teach.lessons import rendered_lessons, rendered_page


def report(path):
    """A report with every part that a page may have."""
    keys = ["loss/0", "grad/a/very/long/name/of/a/layer/somewhere/in/the/middle/kernel", "var/w"]
    kinds = ("same", "different", "incomparable")
    checks = [
        Check("lockstep", step, key, kinds[place], 2.0, 1.0) for step in range(3) for place, key in enumerate(keys)
    ]
    first = FirstDifference(checks[1], "grad", "a", "", None)
    cause = Cause("sum_instead_of_mean", "sum instead of mean", "all gradients differ by 2", "average them")
    level = Level("function", "different", "1 of 3 tensors is not the same", checks, first, [cause])
    facts = ({"towers": 2, "combine": "sum"}, {"ranks": 2, "combine": "mean"})
    result = Result({"function": level, "mixed": Level("mixed", "not_run", "not requested")}, *facts, notes=["a note"])
    counts = Histogram(-1.0, 1.0, [3] * 24)
    result.closer.append(
        Closer("function", "lockstep", 0, keys[1], 72, 72, counts, counts, counts, [Place((1,), 0.5, 1.0)])
    )
    result.pairs.append(("a/kernel", "a.weight", "transpose", "by name"))
    result.provenance = provenance()
    write_html(result, path, "case")
    return path


def test_a_report_passes_axe(tab, tmp_path):
    tab.open(report(tmp_path / "report.html"))
    assert violations(tab) == []


def test_a_recorded_graph_passes_axe(tab, tmp_path):
    path = tmp_path / "graph.html"
    path.write_text(graph_as_html(recorded(), FACTS, "trace", explain_hazard), encoding="utf-8")
    tab.open(path)
    assert violations(tab) == []
    # With every group open, an op chosen, and what was searched for listed.
    tab.evaluate("openAll(); reveal(1); document.getElementById('find').value = 'conv'; search(); 0")
    assert broken_rules(tab) == []


@pytest.mark.parametrize(
    "number",
    [pytest.param(each.number, marks=pytest.mark.slow if each.number > 1 else ()) for each in rendered_lessons()],
)
def test_a_lesson_passes_axe(number, tab):
    tab.open(rendered_page(number))
    assert violations(tab) == []


def test_a_page_that_breaks_rules_does_not_pass(tab, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html data-drawn=1><title>x</title><img src='data:,'><p style='width: 3000px'>x</p>"
    )
    tab.open(page)
    found = " ".join(violations(tab))
    assert "image-alt: img" in found and "html-has-lang" in found and "pixels stand out" in found
