"""The report of results made by hand, against golden files; PARITY_GOLDEN=1 writes them anew."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from parity.judge.metrics import Worst
from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.report import as_json, columns, print_result, print_verdict, write_failure, write_json
from parity.report.failure import described
from parity.report.html.page import as_html
from parity.report.junit import write_junit
from parity.report.markdown import as_markdown
from parity.worker.failures import SideFailed

GOLDEN = Path(__file__).parent / "golden"
REFERENCE = {
    "side": "tf_towers",
    "framework": "tensorflow 1.15.5",
    "towers": 2,
    "combine": "sum",
    "threads": 1,
    "gpu": False,
    "optimizer": {"name": "AdamOptimizer", "learning_rate": 0.0010000000474974513, "epsilon": 1e-8},
    "slots": ["m", "v"],
    "producer": {"python": "3.7.16"},
}
CANDIDATE = {
    "side": "torch_ddp",
    "framework": "torch 2.13.0",
    "ranks": 2,
    "combine": "mean",
    "threads": 1,
    "backend": "gloo",
    "optimizer": {"name": "torch.optim.adam.Adam", "lr": 0.001, "eps": 1e-8, "weight_decay": 0},
    "slots": ["exp_avg", "exp_avg_sq"],
    "producer": {"python": "3.11.7"},
}
ACCURACY = (
    "accuracy of the gradients at steps 0, 1: candidate 0.27, reference 0.28 times the other side's distance from "
    "float64 (limit 64)"
)
PAIRS = [("tower/conv1/weights", "features.0.weight", "hwio_to_oihw", "by name and shape")]
LATER = {name: Level(name, "not_run", "this version does not offer it") for name in ("trajectory", "mixed")}


def right(step: int, key: str, run: str = "lockstep") -> Check:
    return Check(run, step, key, "same", 1e-17, 1e-15, 1.0, 1.0)


def same() -> Result:
    checks = [right(0, "var/tower/conv1/weights", "init"), right(0, "loss/0"), right(1, "grad/tower/conv1/weights")]
    checks.append(Check("lockstep", 0, "state/learning_rate", "not_run", note="the candidate keeps no such counter"))
    reason = "4 tensors; at most 0.01 of the tolerance, 1e-17 of the scale"
    unmoved = "gradient never non-zero, so nothing is proven about: tower/unused/bias"
    levels = {
        "function": Level("function", "same", reason, checks, notes=[unmoved]),
        "float32": Level("float32", "same", reason, checks[1:3], notes=[ACCURACY]),
        **LATER,
    }
    alike = {**CANDIDATE, "combine": "sum"}
    return Result(levels, REFERENCE, alike, PAIRS, ['init = "model": zero biases can hide swapped parts'])


def different() -> Result:
    wrong = Check("lockstep", 0, "grad/tower/conv1/weights", "different", 0.154, 1.44e-14, 1.1, 0.3)
    later = Check("free", 3, "var/tower/conv1/weights", "different", 0.2, 1e-14, 1.1, 0.3)
    worst = Worst((0, 0, 2, 8), 0.16568217017239198, 0.08284108508619599, 0.082841085086, 0.5, 2.98e15)
    first = FirstDifference(wrong, "grad", "tower/conv1/weights", "", worst)
    cause = Cause(
        "sum_instead_of_mean",
        "sum instead of mean, ratio 2",
        "the reference sums over 2 towers where the candidate averages: all 4 combined gradients differ by the factor 2, "
        "and the gradients of the single towers are the same",
        'sum in the port too ([torch] combine = "sum"), or average in the towers and scale the learning rate',
    )
    other = Cause("gradient_factor", "gradients off by the factor 0.5", "in every tower", "divide once")
    checks = [right(0, "loss/0"), wrong, later]
    levels = {
        "function": Level("function", "different", "2 of 3 tensors", checks, first, [cause, other]),
        "float32": Level("float32", "not_run", "not requested"),
        **LATER,
    }
    return Result(levels, REFERENCE, CANDIDATE, PAIRS)


def incomparable() -> Result:
    note = "1 of 1 values are not finite, on both sides"
    broken = Check("lockstep", 4, "loss/1", "incomparable", float("inf"), note=note)
    nan = float("nan")
    first = FirstDifference(broken, "loss", "", "1", Worst((), nan, nan, nan, nan, nan))
    levels = {
        "function": Level("function", "incomparable", "1 of 2 tensors", [right(0, "loss/0"), broken], first),
        "float32": Level("float32", "not_run", "not requested"),
        **LATER,
    }
    return Result(levels, REFERENCE, CANDIDATE, PAIRS)


def missing() -> Result:
    gone = Check("lockstep", 0, "act/0/hidden", "incomparable", float("inf"), note="the candidate has no such tensor")
    first = FirstDifference(gone, "act", "hidden", "0", None)
    level = Level("function", "incomparable", "1 of 2 tensors", [right(0, "loss/0"), gone], first)
    return Result({"function": level, **LATER}, REFERENCE, CANDIDATE)


RESULTS = {"same": same, "different": different, "incomparable": incomparable, "missing": missing}
WAYS = {
    "80": {"width": 80},
    "120": {"width": 120},
    "verbose": {"width": 80, "verbose": True},
    "colours": {"width": 120, "force_terminal": True, "color_system": "standard"},
}


def printed(result: Result, verbose: bool = False, **options) -> str:
    text = io.StringIO()
    print_result(result, "convnet", Console(file=text, highlight=False, **options), verbose)
    return text.getvalue()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RESULTS)
def test_the_report_is_the_golden_one(name, way, monkeypatch):
    for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    shown = printed(RESULTS[name](), **WAYS[way])
    golden = GOLDEN / f"report-{name}-{way}.txt"
    if os.environ.get("PARITY_GOLDEN") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown)
    assert shown == golden.read_text()


@pytest.mark.parametrize("name", RESULTS)
def test_the_report_fits_80_columns_and_has_no_colours_in_a_pipe(name):
    lines = printed(RESULTS[name](), width=80).splitlines()
    assert lines[0].startswith(f"verdict: {RESULTS[name]().verdict}  convnet")
    assert max(len(line) for line in lines[1:]) <= 80
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


def test_the_verdict_is_one_line_however_narrow_and_lists_what_was_not_run():
    text = io.StringIO()
    print_verdict(same(), "a-case-with-a-long-name", Console(file=text, width=20))
    assert text.getvalue() == "verdict: same  a-case-with-a-long-name  (not run: trajectory, mixed)\n"


def test_markup_in_names_is_printed_and_not_obeyed():
    result = same()
    result.notes.append("[red]no[/red] [/]")
    assert "[red]no[/red] [/]" in printed(result, width=80)


def test_accuracy_is_told_only_where_it_matters():
    assert "accuracy" not in printed(same(), width=80)
    assert "accuracy" in printed(same(), width=80, verbose=True)
    worse = same()
    worse.levels["float32"] = replace(worse.levels["float32"], verdict="different")
    assert "accuracy" in printed(worse, width=80)


def test_the_verbose_report_names_the_ten_worst_and_no_more():
    result = same()
    checks = [Check("lockstep", step, "loss/0", "same", step / 100, 1.0, 1.0, 1.0) for step in range(30)]
    result.levels["function"] = replace(result.levels["function"], checks=checks)
    shown = printed(result, width=80, verbose=True)
    table = shown.partition("Worst tensors of level function")[2].partition("Worst tensors of")[0]
    assert [line.split()[0] for line in table.splitlines() if "loss/0" in line] == [str(n) for n in range(29, 19, -1)]


TOP = {"verdict", "levels", "reference", "candidate", "first_difference", "causes", "checks"}
FIRST = {"step", "quantity", "name", "tower", "index", "reference", "candidate", "max_abs", "max_rel", "ulp", "allowed"}


@pytest.mark.parametrize("name", RESULTS)
def test_the_json_has_the_frozen_keys(name, tmp_path):
    write_json(RESULTS[name](), tmp_path / "result.json")
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert set(result) >= TOP
    assert result["verdict"] in ("same", "different", "incomparable")
    for level in result["levels"].values():
        assert set(level) >= {"verdict", "reason", "first_difference", "causes"}
        assert level["verdict"] in ("same", "different", "incomparable", "not_run")
    if result["first_difference"] is not None:
        assert set(result["first_difference"]) >= FIRST
    for cause in result["causes"]:
        assert set(cause) >= {"name", "evidence", "fix"}


def of_the_tool(combination="tool", ranks=2) -> Result:
    result = same()
    result.candidate = {**result.candidate, "combination": combination, "ranks": ranks}
    return result


def test_the_line_of_the_verdict_says_that_the_tool_combined():
    line = io.StringIO()
    print_verdict(of_the_tool(), "convnet", Console(file=line, width=200))
    qualified = "same (combination: ours, not the port's)"
    assert line.getvalue() == f"verdict: {qualified}  convnet  (not run: trajectory, mixed)\n"
    assert as_markdown(of_the_tool(), "convnet").startswith(f"### ✅ {qualified}: convnet\n")
    assert "<title>same (combination: ours, not the port&#39;s): convnet" in as_html(of_the_tool(), "convnet")
    whole = as_json(of_the_tool())
    assert (whole["verdict"], whole["qualifiers"]) == ("same", ["combination: ours, not the port's"])
    assert whole["not_judged"] == whole["qualifiers"]


def test_the_junit_report_says_that_the_tool_combined(tmp_path):
    write_junit(of_the_tool(), tmp_path / "report.xml", "convnet")
    assert "verdict: same (combination: ours, not the port's)" in (tmp_path / "report.xml").read_text()


@pytest.mark.parametrize("result", [of_the_tool("port"), of_the_tool(ranks=1), same()])
def test_a_verdict_that_nothing_is_missing_from_has_no_qualifier(result):
    assert (result.verdict_in_words, result.not_judged) == ("same", [])
    assert result.strict_exit_code == result.exit_code == 0


def test_what_was_not_judged_is_no_success_for_the_strict():
    assert (of_the_tool().exit_code, of_the_tool().strict_exit_code) == (0, 2)
    skipped = of_the_tool("port")
    skipped.unjudged = ["level function: the trace has no float64 shadow"]
    assert (skipped.exit_code, skipped.strict_exit_code, skipped.verdict_in_words) == (0, 2, "same")
    wrong = different()
    wrong.candidate = {**wrong.candidate, "combination": "tool"}
    assert (wrong.verdict_in_words, wrong.strict_exit_code) == ("different", 1)


def test_numbers_that_are_not_finite_are_strings():
    first = as_json(incomparable())["first_difference"]
    assert (first["reference"], first["max_abs"], first["difference"]) == ("nan", "nan", "inf")
    assert as_json(incomparable())["checks"][1]["worst_multiple"] == "inf"


def test_every_check_is_a_row_of_the_table_beside_the_json(tmp_path):
    write_json(different(), tmp_path / "deep" / "result.json")
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["result.checks.npz", "result.json"]
    with np.load(tmp_path / "deep" / "result.checks.npz", allow_pickle=False) as table:
        assert set(table) == set(columns(different()))
        assert list(table["key"]) == ["loss/0", "grad/tower/conv1/weights", "var/tower/conv1/weights"]
        assert list(table["step"]) == [0, 0, 3]
        assert table["difference"].dtype == np.float64
        assert table["difference"][1] == 0.154


def test_the_table_of_a_result_without_checks_is_empty_and_readable(tmp_path):
    write_failure(SideFailed("tf", "expected a, got b. Do c.", "Traceback"), tmp_path / "result.json")
    with np.load(tmp_path / "result.checks.npz", allow_pickle=False) as table:
        assert {len(table[name]) for name in table} == {0}
    result = json.loads((tmp_path / "result.json").read_text())
    message = "TensorFlow side: expected a, got b. Do c."
    assert result["error"] == {"message": message, "side": "tf", "traceback": "Traceback"}


def test_a_json_that_cannot_be_finished_leaves_neither_part_nor_old_file_changed(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parity.report.json_file.np.savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(same(), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text() == "old"


def test_a_bug_of_ours_is_told_as_one_with_its_traceback():
    try:
        {}["missing"]
    except KeyError as error:
        failure = described(error)
    assert failure.message == "expected to finish, got KeyError: 'missing'. This is a bug here: report it."
    assert "Traceback (most recent call last)" in failure.traceback


def test_a_full_disk_is_told_without_a_traceback():
    failure = described(OSError(28, "No space left on device", "/data/x"))
    assert failure.message == "expected to read or write /data/x, got: No space left on device. Fix that and run again."
    assert failure.traceback == ""


def test_the_public_names_are_these():
    import parity.report

    names = {
        name for name, value in vars(parity.report).items() if name[0] != "_" and not isinstance(value, ModuleType)
    }
    public = {
        "as_html",
        "as_json",
        "as_markdown",
        "columns",
        "nothing_compared",
        "print_failure",
        "print_result",
        "print_verdict",
        "power_as_json",
        "report",
        "show_power",
    }
    public |= {"show_mapping", "write_failure", "write_html", "write_json", "write_junit", "write_junit_of_failure"}
    assert names == public | {"write_markdown", "write_tensorboard"}
