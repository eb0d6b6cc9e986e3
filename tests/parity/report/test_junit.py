"""The reports for a continuous integration and for a pull request: JUnit XML and Markdown."""

import html
import re
import shlex
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import record
from test_report import RESULTS, different, incomparable

from parity.cli import main
from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.report import as_markdown, write_junit, write_junit_of_failure
from parity.worker.failures import SideFailed

ROOT = Path(__file__).parents[3]
EVIL = "</failure>]]><a|b>`*x*`\x00\x1b[31m\ud800 @all #1\nnext"


def suite_of(path):
    return ElementTree.parse(path).getroot().find("testsuite")


def named(text):
    wrong = Check("lockstep", 1, f"grad/{text}", "different", 1.0, 0.1, 1.0, 1.0, text)
    first = FirstDifference(wrong, "grad", text, "", None)
    level = Level("function", "different", text, [wrong], first, [Cause(text, text, text, text)], [text])
    return Result({"function": level}, {"towers": 2, "combine": text}, {"ranks": 2, "combine": ""}, [], [text])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("same", [None, None, "skipped", "skipped"]),
        ("different", ["failure", "skipped", "skipped", "skipped"]),
        ("incomparable", ["error", "skipped", "skipped", "skipped"]),
        ("missing", ["error", "skipped", "skipped"]),
    ],
)
def test_every_level_is_a_case_of_its_kind_and_the_counts_agree(name, kinds, tmp_path):
    result = RESULTS[name]()
    write_junit(result, tmp_path / "deep" / "junit.xml", "convnet")
    suite = suite_of(tmp_path / "deep" / "junit.xml")
    cases = suite.findall("testcase")
    found = [next((each.tag for each in case if each.tag != "system-out"), None) for case in cases]
    assert found == kinds
    assert [case.get("name").split()[1] for case in cases] == list(result.levels)
    assert {case.get("classname") for case in cases} == {"parity.convnet"}
    counts = [suite.get(kind) for kind in ("tests", "failures", "errors", "skipped")]
    assert counts == [str(len(kinds)), *(str(kinds.count(kind)) for kind in ("failure", "error", "skipped"))]


def test_a_failure_tells_the_first_difference_and_its_cause(tmp_path):
    write_junit(different(), tmp_path / "junit.xml", "convnet")
    failure = suite_of(tmp_path / "junit.xml").find("testcase/failure")
    assert failure.get("message") == (
        "First difference: step 0, grad/tower/conv1/weights: sum instead of mean, ratio 2"
    )
    assert "reference: 0.16568217  at [0, 0, 2, 8]" in failure.text
    assert "cause: sum instead of mean, ratio 2\nthe reference sums over 2 towers" in failure.text
    assert "fix: divide once" in failure.text


def test_a_level_that_was_not_run_is_skipped_with_the_reason(tmp_path):
    write_junit(different(), tmp_path / "junit.xml", "convnet")
    skipped = [each.get("message") for each in suite_of(tmp_path / "junit.xml").iter("skipped")]
    assert skipped == ["not requested", "this version does not offer it", "this version does not offer it"]


@given(st.text(alphabet=st.characters(codec=None), max_size=30))
def test_any_name_is_xml_that_can_be_read_again(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("junit") / "junit.xml"
    write_junit(named(text), path, text)
    message = suite_of(path).find("testcase/failure").get("message")
    kept = "".join(sign for sign in text if sign.isalnum() and sign.isascii())
    assert kept in "".join(sign for sign in message if sign.isalnum() and sign.isascii())


def test_what_xml_cannot_hold_becomes_a_sign_for_it(tmp_path):
    write_junit(named(EVIL), tmp_path / "junit.xml", "x")
    message = suite_of(tmp_path / "junit.xml").find("testcase/failure").get("message")
    assert "grad/</failure>]]><a|b>`*x*`��[31m� @all #1" in message


def test_what_could_not_be_compared_is_an_error_in_every_level(tmp_path):
    write_junit_of_failure(SideFailed("tf", "expected a, got b. Do c.", "Traceback"), tmp_path / "junit.xml")
    suite = suite_of(tmp_path / "junit.xml")
    errors = list(suite.iter("error"))
    assert [error.get("message") for error in errors] == ["TensorFlow side: expected a, got b. Do c."] * 4
    assert {error.text for error in errors} == {"Traceback"}
    assert suite.get("errors") == "4"


def test_the_markdown_tells_verdict_difference_cause_and_facts():
    lines = as_markdown(different(), "convnet").splitlines()
    assert lines[0] == "### ❌ different: convnet"
    assert "| 1 function | ❌ different | 2 of 3 tensors |" in lines
    assert "**First difference:** step 0, `grad/tower/conv1/weights`" in lines
    assert "- reference: 0.16568217 at \\[0, 0, 2, 8\\]" in lines
    assert any(line.startswith("**Cause: sum instead of mean, ratio 2.** the reference sums") for line in lines)
    assert "> **Fix:** divide once" in lines
    assert "| `combine` | `sum` | `mean` |" in lines
    assert "| 3 | `var/tower/conv1/weights, free run` | 2e+13 | 0.18 | different |" in lines


@pytest.mark.parametrize("name", RESULTS)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(name):
    for table in re.findall(r"(?:^\|.*\n)+", as_markdown(RESULTS[name](), "a|b"), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_names_are_neither_markup_nor_mentions_nor_cells():
    shown = as_markdown(named(EVIL), EVIL)
    assert "</failure>" not in shown
    assert not re.search(r"(?<!\\)<(?!/?(details|summary|code)>)", shown)
    assert not re.search(r"[@#]\w", re.sub(r"&#\d+;|<code>.*?</code>", "", shown))
    row = next(line for line in shown.splitlines() if line.startswith("| 1 | <code>grad/"))
    assert "&#124;b&#62;&#96;&#42;x&#42;&#96;" in row
    assert row.count("|") == 6


def test_a_comment_stays_far_below_what_a_pull_request_takes():
    result = incomparable()
    checks = [Check("lockstep", step, "act/0/" + "x" * 100, "incomparable", note="n") for step in range(5000)]
    result.levels["function"] = replace(result.levels["function"], checks=checks)
    assert len(as_markdown(result, "convnet")) < 8000


def test_compare_writes_every_kind_of_report_of_one_result(tmp_path, capsys):
    one, other = record(tmp_path / "one"), record(tmp_path / "other", scale=2.0)
    names = {name: tmp_path / "out" / f"report.{name}" for name in ("json", "html", "junit", "markdown")}
    options = [word for name, path in names.items() for word in (f"--{name}", str(path))]
    assert main(["compare", str(one), str(other), "--quiet", *options]) == 1
    assert all("grad/kernel" in path.read_text() for path in names.values())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["report.checks.npz", *(path.name for path in names.values())]
    )


def test_two_options_that_name_one_file_are_refused(tmp_path, capsys):
    path = tmp_path / "report"
    code = main(["compare", "a", "b", "--html", str(path), "--junit", str(path)])
    assert code == 2
    assert (
        f"--junit: expected a file of its own, got {path}, which --html names. Name another." in capsys.readouterr().err
    )


def test_a_failed_comparison_leaves_a_junit_error_and_a_page_that_says_why(tmp_path, capsys):
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    page.write_text("old")
    (tmp_path / "page.checks.npz").write_text("of another result")
    code = main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--html", str(page), "--junit", str(junit)])
    assert code == 2
    assert (tmp_path / "page.checks.npz").exists()
    message = next(suite_of(junit).iter("error")).get("message")
    assert message in html.unescape(page.read_text())
    assert message in " ".join(capsys.readouterr().err.split())


def block_of(name):
    """Returns the command that docs/report.md shows under a mark."""
    text = (ROOT / "docs" / "report.md").read_text()
    return re.search(rf"<!-- {name} -->\n```bash\n(.*?)\n```", text, re.DOTALL)[1]


@pytest.mark.slow
def test_the_command_of_the_docs_writes_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(block_of("run").replace("examples/", f"{ROOT}/examples/"))
    assert words[0] == "parity"
    assert main([*words[1:], "--steps", "2", "--levels", "1"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "report.html", "report.md", "report.xml"]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["candidate", "difference", "reference"]
    message = "First difference: step 0, grad/logits/bias: sum instead of mean, ratio 4"
    assert suite_of(tmp_path / "report.xml").find("testcase/failure").get("message") == message
    assert "sum instead of mean, ratio 4" in (tmp_path / "report.md").read_text()
    assert "sum instead of mean, ratio 4" in (tmp_path / "report.html").read_text()


def test_the_measuring_command_of_the_docs_names_a_test_that_is_there():
    words = shlex.split(block_of("measure"))
    assert f"def test_{words[-1]}_" in (ROOT / words[-3]).read_text()
    assert (ROOT / words[-3]).name == "test_report_browser.py"
