"""A few cells of the matrix hold; what does not hold is seen, of programs that leave what must not be left."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.traces import record

from . import cells as module
from .cells import Cell, cells, run_cell
from .commands import COMMANDS, Command, Inputs
from .faults import FAULTS, what_is_missing
from .moments import MOMENTS, Moment

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)

ROOT = Path(__file__).parents[2]
# Before a framework is imported, but for a program's: a second of a processor each. `python -m tests.faults` runs all.
QUICK = (
    "run/start/int",
    "record/start/term",
    "program/import/kill",
    "train/start/hup",
    "compare/rename/out-fills",
    "compare/before/stdout-full",
)
# While frameworks are imported, and behind that: each brings a side, or a recording, of its own.
SAMPLE = (
    "run/tf-import/kill",
    "record/tf-import/kill",
    "record/tf-import/child-killed",
    "train/before/temporary-missing",
    "replay/torch-import/kill",
    "port/rename/kill",
)


def driven(folder, names):
    """Has the driver run cells; returns how it ended and the outcomes by name. What is in `folder/inputs` is not made."""
    file = folder / "outcomes"
    only = [word for name in names for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.faults", "-j", "2", "--inputs", str(folder / "inputs"), "--out", str(file)]
    done = subprocess.run([*command, *only], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    return done, {each["cell"]: each for each in map(json.loads, file.read_text().splitlines())}


def check(outcome):
    if outcome["skipped"]:
        pytest.skip(outcome["skipped"])
    assert outcome["faults"] == []


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    (folder / "inputs").mkdir()
    record(folder / "inputs" / "recorded")  # which `compare` reads, in place of a script's
    return driven(folder, QUICK)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return driven(tmp_path_factory.mktemp("faults"), SAMPLE)


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_leaves_nothing_and_says_what_happened(quick, name):
    check(quick[1][name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_behind_an_import_leaves_nothing_and_says_what_happened(outcomes, name):
    check(outcomes[1][name])


def test_the_driver_prints_a_row_for_each_cell_and_a_summary(quick):
    done = quick[0]
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in QUICK)
    skipped = sum(bool(each["skipped"]) for each in quick[1].values())
    assert f"{len(QUICK)} cells: {len(QUICK) - skipped} hold, 0 do not, {skipped} skipped" in done.stdout


def test_the_matrix_has_every_command_moment_and_fault():
    found = cells()
    assert len(found) >= 150
    assert [name for name, count in Counter(cell.name for cell in found).items() if count > 1] == []
    assert {cell.command.name for cell in found} == {*COMMANDS}
    assert {cell.moment for cell in found} == {None, *MOMENTS}
    assert {cell.fault.name for cell in found} == {*FAULTS}
    assert all((cell.fault.at is None) == (cell.moment is None) for cell in found)


# ---- that a cell can fail

ORPHAN = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])"
TEMPORARY = "import tempfile; tempfile.mkdtemp(prefix='parity-')"
FALSE = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
(out / 'result.json').write_text('{"verdict": "sa')
"""
POINT = "import wave; wave.open"
RIGHT = "import pathlib, sys; pathlib.Path(sys.argv[1], 'result').touch()"


def cell_of(program, fault="temporary-missing", moment=None, ours=True):
    def words(inputs, out):
        return [sys.executable, "-c", program, str(out)]

    return Cell(Command("planted", words, ("result",), ours=ours), moment, FAULTS[fault])


def outcome_of(tmp_path, *arguments, **options):
    return run_cell(cell_of(*arguments, **options), Inputs(tmp_path / "inputs"), tmp_path / "cell")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (f"{RIGHT}; {ORPHAN}", "leaves 1 processes"),
        (f"{RIGHT}; import os; os.mkdir(os.environ['TMPDIR']); {TEMPORARY}", "leaves temporary parity-"),
        (f"{RIGHT}\n{FALSE}", "result.json: is cut short"),
        (f"{RIGHT}; pathlib.Path(sys.argv[1], '.a.part').touch()", "leaves .a.part"),
        ("", "ends with 0 without result"),
        ("raise SystemExit(4)", "ends with 4, not 0 or 2"),
        ("import sys; sys.stderr.write('Traceback\\n'); sys.exit(2)", "says no sentence"),
    ],
)
def test_what_must_not_be_left_is_seen(tmp_path, monkeypatch, program, said):
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.5)
    assert said in "; ".join(outcome_of(tmp_path, program).faults)


def test_a_program_that_does_all_right_holds(tmp_path):
    assert outcome_of(tmp_path, RIGHT).faults == []
    told = "import sys; sys.stderr.write('parity: x: expected a, got b. Do c.'); sys.exit(2)"
    assert outcome_of(tmp_path, told).faults == []


def test_a_program_that_hangs_is_ended_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_SECONDS", 1.0)
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.1)
    outcome = outcome_of(tmp_path, "import time; time.sleep(60)")
    assert outcome.code is None
    assert "hangs for more than 1 s" in outcome.faults


def test_a_process_stands_at_its_moment_until_the_fault_has_come(tmp_path):
    moment = Moment("planted", "wave", "wave", "open", process="wave", calls=2)
    twice = "import wave, sys\nfor _ in range(2):\n    try: wave.open('nothing')\n    except OSError: print('called')\n"
    outcome = outcome_of(tmp_path, twice, "kill", moment)
    assert outcome.faults == []
    assert outcome.code == -signal.SIGKILL


def test_a_program_at_an_import_still_asks_the_finder_behind_the_moments(tmp_path):
    finder = "class Finder:\n    def find_spec(self, name, path=None, target=None):\n        print('asked for', name)"
    program = f"import sys\n{finder}\nsys.meta_path.insert(1, Finder())\nimport wave\n"
    program += RIGHT
    cell = cell_of(program, "stop", Moment("planted", "wave", "wave", process="wave"))
    run_cell(cell, Inputs(tmp_path / "inputs"), tmp_path / "cell", keep=True)
    assert "asked for wave" in (tmp_path / "cell" / "stdout").read_text()


def test_a_moment_that_does_not_come_is_said(tmp_path):
    moment = Moment("planted", "wave", "wave", "open", process="wave")
    assert "the moment did not come" in outcome_of(tmp_path, RIGHT, "term", moment).faults


def test_a_fault_that_cannot_be_made_here_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert what_is_missing("mount") == "needs Linux and the program unshare"
    assert outcome_of(tmp_path, RIGHT, "out-full").skipped == "needs Linux and the program unshare"
