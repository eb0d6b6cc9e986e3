"""A run that is stopped from outside: Ctrl-C, a cancelled job, a killed parent. Nothing is left of it."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from support.tiny_case import BREAK, processes_with, write_case

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0


def eventually(condition) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def running(tmp_path):
    """A run in a process of its own that has got as far as its first step; the mark of its processes; its folder."""
    reached = tmp_path / "reached"
    hang = f"{BREAK} -> open({str(reached)!r}, 'w').close(); time.sleep(1000)"
    case = write_case(tmp_path / "tiny", torch=hang)
    mark = f"mark-{uuid.uuid4().hex}"
    (tmp_path / "temporary").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PARITY_TEST_MARK": mark,
        "TMPDIR": str(tmp_path / "temporary"),
    }
    environment.pop("PARITY_TF_PYTHON", None)
    command = [sys.executable, "-m", "parity.cli", "run", str(case), "--json", str(tmp_path / "result.json")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, preexec_fn=hear_interrupts
    )
    try:
        assert eventually(lambda: reached.exists() or process.poll() is not None)
        assert process.poll() is None
        yield process, mark, tmp_path
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def hear_interrupts():
    """What a shell starts in the background ignores SIGINT, and so does all that such a test run starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


LATER = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)]


@pytest.mark.parametrize("number", [signal.SIGINT, *LATER])
def test_a_run_that_is_interrupted_says_so_and_leaves_nothing(running, number):
    process, mark, folder = running
    assert len(processes_with(mark)) >= 6  # this one, three sides, two ranks
    process.send_signal(number)
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, (printed[-1500:], errors[-3000:])
    assert printed == ""
    assert errors.splitlines() == [
        "parity: stopped before there was a verdict; every process of the run has been ended. Run it again.",
        "verdict: incomparable",
    ]
    assert processes_with(mark) == []
    assert [each.name for each in (folder / "temporary").iterdir() if each.name.startswith(("parity-", "ranks-"))] == []
    assert json.loads((folder / "result.json").read_text())["verdict"] == "incomparable"


def test_the_sides_of_a_killed_run_end_by_themselves(running):
    process, mark, folder = running
    process.kill()
    assert eventually(lambda: processes_with(mark) == [])
    assert not (folder / "result.json").exists()
