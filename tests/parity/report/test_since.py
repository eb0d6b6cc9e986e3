"""What changed since an earlier run: what is said of two results, and which files are taken for one."""

import copy
import json
import re
import shlex
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from test_junit import ROOT, block_of
from test_report import RESULTS, different, printed, same
from test_report_page import EVIL, Reader

from parity.cli import main
from parity.judge.result import Check, Level, Result
from parity.report import as_html, as_json, as_markdown, write_failure, write_json
from parity.report.provenance import provenance
from parity.report.since import SinceError, changes_since, left_out_of, read_earlier
from parity.trace import TraceWriter


def written(result, path):
    write_json(result, path)
    return path


def since(before, after, path):
    return changes_since(path, read_earlier(written(before, path)), after)


def listed(found):
    return [(each.topic, each.name, each.before, each.after) for each in found.changes]


def of_checks(*checks):
    return Result({"function": Level("function", "same", "", checks)}, {}, {})


@pytest.mark.parametrize("name", RESULTS)
def test_nothing_changed_between_a_result_and_itself(name, tmp_path):
    found = since(RESULTS[name](), RESULTS[name](), tmp_path / "r.json")
    assert found.changes == [] and found.left_out == 0 and found.time == ""


def test_a_port_that_was_fixed_is_told_level_by_level(tmp_path):
    found = listed(since(different(), same(), tmp_path / "r.json"))
    assert found[:5] == [
        ("verdict", "", "different", "same"),
        ("level", "1 function", "different", "same"),
        ("level", "2 float32", "not run", "same"),
        ("first difference", "", "step 0, grad/tower/conv1/weights, 1.07e+13 of tolerance", ""),
        ("cause", "sum_instead_of_mean", "sum instead of mean, ratio 2", ""),
    ]
    assert ("fact", "combine of the candidate", "mean", "sum") in found
    # Level 2 was judged by one of the runs only: its tensors did not change.
    assert not any("float32" in name for topic, name, _, _ in found if topic == "tensor")


def test_a_new_cause_and_another_place_are_told(tmp_path):
    moved = different()
    level = moved.levels["function"]
    first = replace(level.first_difference, check=level.checks[2])
    causes = [level.causes[0], replace(level.causes[1], name="momentum", title="momentum off")]
    moved.levels["function"] = replace(level, first_difference=first, causes=causes)
    assert listed(since(different(), moved, tmp_path / "r.json")) == [
        (
            "first difference",
            "",
            "step 0, grad/tower/conv1/weights, 1.07e+13 of tolerance",
            "step 3, var/tower/conv1/weights, 2e+13 of tolerance",
        ),
        ("cause", "gradient_factor", "gradients off by the factor 0.5", ""),
        ("cause", "momentum", "", "momentum off"),
    ]


# A ratio that doubles is told, one that less than doubles is not; nor any that stays below a tenth of the tolerance.
@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [(0.2, 0.399, False), (0.2, 0.401, True), (0.401, 0.2, True), (0.01, 0.099, False), (0.01, 0.101, True)],
)
def test_a_ratio_is_told_that_changed_much(before, after, is_told, tmp_path):
    results = [of_checks(Check("lockstep", 3, "grad/w", "same", each, 1.0)) for each in (before, after)]
    found = listed(since(*results, tmp_path / "r.json"))
    texts = [f"same, {each:.2g} of tolerance at step 3" for each in (before, after)]
    assert found == ([("tensor", "grad/w (function, lockstep)", *texts)] if is_told else [])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_ratios_that_are_not_finite_are_read_and_compared(value, tmp_path):
    broken = of_checks(Check("lockstep", 0, "grad/w", "different", value, 1.0))
    right = of_checks(Check("lockstep", 0, "grad/w", "same", 0.0, 1.0))
    assert since(broken, broken, tmp_path / "r.json").changes == []
    assert listed(since(broken, right, tmp_path / "r.json"))[-1][2:] == (
        f"different, {value} of tolerance at step 0",
        "same, 0 of tolerance at step 0",
    )


def test_the_ten_worst_tensors_are_listed_and_the_others_counted(tmp_path):
    results = [
        of_checks(*(Check("lockstep", 0, f"grad/{n:02}", "same", n * by, 1.0) for n in range(1, 16)))
        for by in (0.01, 1.0)
    ]
    found = since(*results, tmp_path / "r.json")
    assert [each.name.split()[0] for each in found.changes] == [f"grad/{n:02}" for n in range(15, 5, -1)]
    assert found.left_out == 5 and left_out_of(found) == "5 more tensors and facts changed"


def test_a_tensor_that_is_new_or_gone_is_told(tmp_path):
    one, other = Check("lockstep", 0, "grad/a", "same"), Check("lockstep", 0, "grad/b", "same")
    found = listed(since(of_checks(one), of_checks(other), tmp_path / "r.json"))
    assert [(name, before, after) for _, name, before, after in found] == [
        ("grad/a (function, lockstep)", "same, 0 of tolerance at step 0", ""),
        ("grad/b (function, lockstep)", "", "same, 0 of tolerance at step 0"),
    ]


def test_where_the_runs_come_from_is_compared_and_their_time_and_command_are_not(tmp_path):
    before, after = same(), same()
    before.provenance, after.provenance = provenance(), provenance()
    before.provenance |= {"version": "0.0.9", "time": "2020-01-01T00:00:00+00:00", "command": "parity run x"}
    found = since(before, after, tmp_path / "r.json")
    assert listed(found) == [("provenance", "version", "0.0.9", after.provenance["version"])]
    assert found.time == "2020-01-01T00:00:00+00:00"


def test_an_earlier_run_that_compared_nothing_is_told_by_its_message(tmp_path):
    write_failure(ValueError("case: expected a loss."), tmp_path / "r.json")
    after = same()
    found = listed(changes_since(tmp_path / "r.json", read_earlier(tmp_path / "r.json"), after))
    assert found[0][0] == "error" and "case: expected a loss." in found[0][2]
    assert ("verdict", "", "incomparable", "same") in found


def test_a_long_fact_is_cut(tmp_path):
    before, after = same(), same()
    before.reference, after.reference = {"names": ["a" * 500]}, {"names": ["a" * 500 + "b"]}
    [change] = since(before, after, tmp_path / "r.json").changes
    assert change.before == "a" * 200 + "…" == change.after


def test_every_report_says_it(tmp_path):
    result = same()
    result.since = since(different(), same(), tmp_path / "r.json")
    shown = printed(result, width=120)
    assert "Changed since" in shown and "level 1 function" in shown and "sum instead of mean, ratio 2" in shown
    markdown = as_markdown(result, "x")
    assert "| what | then | now |" in markdown and "| verdict | `different` | `same` |" in markdown
    page = Reader(as_html(result, "x"))
    assert "verdict different same" in page.text and page.unmatched == [] and page.open == []
    found = as_json(result)["since"]
    assert found["changes"][0] == {"topic": "verdict", "name": "", "before": "different", "after": "same"}
    schema = json.loads(files("parity.report").joinpath("result.schema.json").read_text(encoding="utf-8"))
    write_json(result, tmp_path / "new.json")
    assert list(Draft202012Validator(schema).iter_errors(json.loads((tmp_path / "new.json").read_text()))) == []
    assert "since" not in as_json(same())


def test_nothing_has_changed_is_said_too(tmp_path):
    result = same()
    result.since = since(same(), same(), tmp_path / "r.json")
    sentence = "Nothing has changed since "
    assert sentence in printed(result, width=120) and sentence in as_markdown(result, "x")
    assert sentence in Reader(as_html(result, "x")).text


def test_texts_of_an_earlier_report_are_no_markup(tmp_path):
    earlier = as_json(different()) | {"error": {"message": EVIL}}
    earlier["causes"][0] |= {"name": EVIL, "title": f"[red]{EVIL}[/]"}
    (tmp_path / "r.json").write_text(json.dumps(earlier))
    result = same()
    result.since = changes_since(tmp_path / "r.json", read_earlier(tmp_path / "r.json"), same())
    page = Reader(as_html(result, "x"))
    assert page.unmatched == [] and not any("onerror" in attributes for _, attributes in page.elements)
    assert not re.search(r"(?<!\\)<img", as_markdown(result, "x")) and "[red]" in printed(result, width=120)


WRONG = {
    "a list": lambda _: [],
    "another format": lambda found: found | {"format": {"name": "tower-parity-graph", "version": 1}},
    "a later version": lambda found: found | {"format": {"name": "tower-parity-result", "version": 2}},
    "no verdict": lambda found: found | {"verdict": ["same"]},
    "a level of text": lambda found: found | {"levels": {"function": "same"}},
    "a check without a number": lambda found: found | {"checks": [found["checks"][0] | {"worst_multiple": "much"}]},
    "a step that is none": lambda found: found | {"first_difference": found["first_difference"] | {"step": "0"}},
    "a cause of numbers": lambda found: found | {"causes": [{"name": 1, "title": 2}]},
    "facts of a list": lambda found: found | {"reference": []},
    "a time of numbers": lambda found: found | {"provenance": {"time": 1}},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_report_is_refused(name, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(WRONG[name](copy.deepcopy(as_json(different())))))
    with pytest.raises(SinceError, match=r"--since: expected what --json wrote .* Write it anew\."):
        read_earlier(tmp_path / "r.json")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(SinceError, match="No such file or directory"):
        read_earlier(tmp_path / "r.json")
    with pytest.raises(SinceError, match="got another file"):
        read_earlier(tmp_path)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(SinceError, match="got another file"):
        read_earlier(tmp_path / "deep.json")


def trace(path, value):
    writer = TraceWriter(path, {}, {"framework": "none"}, {"w": {"kind": "weight"}})
    writer.init({})
    writer.step(0, {"loss/0": np.array(1.0), "grad/w": np.full(3, value), "var/w": np.ones(3)})
    writer.close()
    return str(path)


def test_compare_takes_the_file_that_it_writes_itself(tmp_path, capsys):
    one, two, three = (trace(tmp_path / name, value) for name, value in (("a", 1.0), ("b", 2.0), ("c", 1.0)))
    report = str(tmp_path / "r.json")
    assert main(["compare", one, two, "--json", report, "--quiet"]) == 1
    capsys.readouterr()
    assert main(["compare", one, three, "--json", report, "--since", report]) == 0
    assert "Changed since" in capsys.readouterr().out
    changes = json.loads((tmp_path / "r.json").read_text())["since"]["changes"]
    assert {"topic": "verdict", "name": "", "before": "different", "after": "same"} in changes
    assert main(["compare", one, three, "--since", report]) == 0
    assert "Nothing has changed since" in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_docs_do_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, second = block_of("since").replace("examples/", f"{ROOT}/examples/").splitlines()
    assert [main(shlex.split(line)[1:]) for line in (first, second)] == [1, 1]
    assert "ince last.json (20" in capsys.readouterr().out  # since or Since


def test_a_file_that_is_none_is_refused_before_anything_is_judged(tmp_path, capsys):
    assert main(["compare", "nowhere", "nowhere", "--since", str(tmp_path / "no.json")]) == 2
    assert "--since: expected what --json wrote" in capsys.readouterr().err
    assert main(["run", "one", "two", "--since", "x"]) == 2
    assert "parity: --since: expected one case, got 2." in capsys.readouterr().err
