"""The script that compares recordings and scans of public scripts: which findings count, and what is said where."""

import importlib
import py_compile
import sys
from pathlib import Path

import pytest

from parity.trace import TraceWriter

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SUMMED = """
import tensorflow as tf

def towers(losses, optimizer):
    grads = []
    for index in range(2):
        with tf.device("/gpu:%d" % index):
            grads.append(optimizer.compute_gradients(losses[index]))
    summed = []
    for pairs in zip(*grads):
        summed.append((tf.add_n([grad for grad, _ in pairs]), pairs[0][1]))
    return tf.train.GradientDescentOptimizer(0.1).apply_gradients(summed, tf.train.get_global_step())
"""


@pytest.fixture
def hazards(monkeypatch):
    """The script, found for one test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    path = list(sys.path)
    yield importlib.import_module("public_hazards")
    sys.path[:] = path
    for name in ("public_hazards", "public_ports"):
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def script(tmp_path):
    """A script with two modules in a checkout, of which its run imported the first, and how it is listed."""
    for checkout in (tmp_path / "sources" / "owner+name", tmp_path / "work" / "checkout"):
        (checkout / "tf").mkdir(parents=True)
        (checkout / "tf" / "train.py").write_text("import model\n")
        for name in ("model.py", "model_before.py"):
            (checkout / "tf" / name).write_text(SUMMED)
    py_compile.compile(str(tmp_path / "work" / "checkout" / "tf" / "model.py"))
    return {"name": "x", "repository": "owner/name", "folder": "tf", "command": ["train.py"]}


def recorded(folder: Path, *names: str) -> Path:
    """Leaves a recording that names hazards beside the checkout that was run."""
    facts = {"hazards": [{"name": name, "evidence": ""} for name in names]}
    TraceWriter(folder / "trace", {"package": "parity"}, facts).close()
    return folder


def test_only_what_the_run_imported_counts_and_the_script(hazards, script, tmp_path):
    findings = hazards.findings_of(script, tmp_path / "sources", tmp_path / "work")
    assert {Path(each.place.path).name for each in findings} == {"model.py"}
    assert "TP101" in {each.rule for each in findings}


def test_a_recording_that_says_the_same_does_not_differ(hazards, script, tmp_path):
    comparison = hazards.compare(script, tmp_path / "sources", recorded(tmp_path / "work", "sum_not_mean"))
    assert (comparison.allowed, comparison.disagreements) == ((), ())
    assert comparison.row() == "| x | sum_not_mean | TP101 | - | - |"


def test_what_one_of_them_alone_says_is_a_disagreement_or_a_page_allows_it(hazards, script, tmp_path):
    folder = recorded(tmp_path / "work", "loss_is_no_scalar", "overlapping_data", "ungated_update")
    comparison = hazards.compare(script, tmp_path / "sources", folder)
    assert comparison.allowed == ("only recorded: overlapping_data",)
    assert comparison.disagreements == (
        "only recorded: loss_is_no_scalar",
        "only recorded: ungated_update",
        "only found: TP101",
    )
    assert (
        hazards.counts([comparison]) == "1 scripts, 3 hazards recorded, 1 rules found: "
        "0 scripts say the same or a page says why not (1 times), 1 differ (3 times)"
    )


def test_what_cannot_be_recorded_is_said_and_the_exit_code_is_one(hazards, tmp_path, monkeypatch, capsys):
    words = ["public_hazards.py", "--sources", str(tmp_path), "--work", str(tmp_path / "work"), "--only", "lamb"]
    monkeypatch.setattr(sys, "argv", words)
    assert hazards.main() == 1
    printed = capsys.readouterr().out
    assert "| lamb | not recorded: " in printed
    assert "0 scripts" in printed and printed.endswith("; 1 not recorded\n")
