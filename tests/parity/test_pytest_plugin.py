"""The pytest plugin, in a pytest of its own."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity import experiment, pytest_plugin
from parity.case import load_case
from parity.experiment.sides.golden_side import DESCRIPTION, GOLDEN_FORMAT, GOLDEN_FORMAT_VERSION, of_the_reference
from parity.testing import assert_parity
from parity.trace import TraceWriter

ROOT = Path(__file__).parents[2]
SQUARE = ROOT / "tests" / "cases" / "square"
TESTS = """
import pytest


def test_the_same(assert_parity):
    assert assert_parity("one", "one").verdict == "same"


def test_another(assert_parity):
    assert_parity("one", "other")
"""
MARKED = """
import pytest


@pytest.mark.parity("square", steps=1, levels=("function",))
def test_marked():
    pass


@pytest.mark.parity("square", steps=1, towers=1, batch_size=3, levels=("function",))
def test_marked_again():
    assert False, "the body runs after the proof"
"""


def run_pytest(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "parity.pytest_plugin", "-q", "--strict-markers", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", str(folder), *arguments, str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write(folder, value):
    writer = TraceWriter(folder, {"package": "test"}, {}, {"w": {"shape": [2], "dtype": "float64", "kind": "weight"}})
    writer.init({"var/w": np.zeros(2)})
    writer.step(0, {"loss/0": np.array(value), "var/w": np.ones(2)})
    writer.close()


def test_a_difference_fails_the_test_with_the_report_for_its_text(tmp_path):
    write(tmp_path / "one", 1.0)
    write(tmp_path / "other", 2.0)
    (tmp_path / "test_port.py").write_text(TESTS)
    done = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "FAILED" in done.stdout and "verdict: different" in done.stdout


def test_the_marker_and_the_fixture_are_announced(tmp_path):
    shown = run_pytest(tmp_path, "--markers").stdout
    assert "@pytest.mark.parity(case, golden=None" in shown
    assert "--parity-tf-python=PATH" in run_pytest(tmp_path, "--help").stdout


def test_the_plugin_imports_neither_framework_nor_the_rest_of_the_package():
    heavy = {"torch", "tensorflow", "numpy", "parity.experiment"}
    code = f"import sys, parity.pytest_plugin; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_marked_tests_share_the_sides_and_run_their_body_after_the_proof(tmp_path):
    shutil.copytree(SQUARE, tmp_path / "square")
    (tmp_path / "test_port.py").write_text(MARKED)
    done = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "the body runs after the proof" in done.stdout


def test_sides_serve_one_test_after_the_other_until_one_is_lost(monkeypatch):
    class Opened:
        lost = False

    monkeypatch.setattr(experiment, "open_sides", lambda python, reference: contextlib.nullcontext(Opened()))
    session = type("Session", (), {"stash": pytest.Stash()})()
    first = pytest_plugin._sides(session, ("python", True))
    assert pytest_plugin._sides(session, ("python", True)) is first
    assert pytest_plugin._sides(session, ("python", False)) is not first
    first.lost = True
    assert pytest_plugin._sides(session, ("python", True)) is not first


def golden_of(folder, steps):
    """Writes the description of a golden trace of the case `square`, and no more of it."""
    case = load_case(SQUARE, steps=steps)
    known = {"case": of_the_reference(case), "inputs": {}, "prepared": {}, "initial_slots": {}}
    folder.mkdir()
    description = {"format": GOLDEN_FORMAT, "format_version": GOLDEN_FORMAT_VERSION, **known}
    (folder / DESCRIPTION).write_text(json.dumps(description))


@pytest.mark.parametrize(("asked", "run"), [({}, 3), ({"steps": 2}, 2)])
def test_a_golden_trace_says_how_many_steps_are_run_unless_the_test_does(tmp_path, monkeypatch, asked, run):
    golden_of(tmp_path / "golden", 3)
    seen = []

    def run_case(case, *arguments, **more):
        seen.append(case.steps)
        raise RuntimeError("far enough")

    monkeypatch.setattr("parity.testing.run_case", run_case)
    with pytest.raises(RuntimeError, match="far enough"):
        assert_parity(tmp_path / "golden", SQUARE, sides=lambda python, reference: None, **asked)
    assert seen == [run]


def test_what_a_marker_cannot_use_is_said_without_a_traceback(tmp_path):
    shutil.copytree(SQUARE, tmp_path / "square")
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "golden.json").write_text("{}")
    marked = 'import pytest\n\n\n@pytest.mark.parity("square", golden="golden")\ndef test_it():\n    pass\n'
    (tmp_path / "test_it.py").write_text(marked)
    done = run_pytest(tmp_path)
    assert done.returncode == 1
    said = done.stdout.split("= FAILURES =")[1]
    assert "golden: expected " in said
    assert "Traceback" not in said and "parity/testing.py" not in said
    assert len(said.splitlines()) < 12
