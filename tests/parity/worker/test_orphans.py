"""What a parent that is killed, or whose terminal is closed, leaves: nothing, in whatever its children are at."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from support.signals import take_hangups
from support.tiny_case import processes_with

from parity.worker import bootstrap

if sys.platform != "linux":
    pytest.skip("looks for left processes in /proc; runs on Linux", allow_module_level=True)

ROOT = Path(__file__).parents[3]
LEFT_SECONDS = 5.0
HANG = "import os, pathlib, time; pathlib.Path(os.environ['REACHED']).touch(); time.sleep(600)\n"
START = "import subprocess, sys; subprocess.Popen({}, stdin=subprocess.PIPE).wait()"
UNTOLD = (  # as where there is no prctl
    "import ctypes; ctypes.CDLL = None; from parity.worker.parent import die_with_parent; die_with_parent(); " + HANG
)


@pytest.fixture
def begun(tmp_path):
    """Starts a program of which some process imports a TensorFlow that takes for ever; its process, and the mark of all."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "tensorflow.py").write_text(HANG)
    mark, reached = f"mark-{uuid.uuid4().hex}", tmp_path / "reached"
    path = os.pathsep.join([str(tmp_path / "slow"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "REACHED": str(reached), "PARITY_TEST_MARK": mark}
    environment.pop("PARITY_TF_PYTHON", None)
    started = []

    def begin(*words):
        process = subprocess.Popen(
            [sys.executable, *words], env=environment, cwd=tmp_path, start_new_session=True, preexec_fn=take_hangups
        )
        started.append(process)
        deadline = time.monotonic() + 120
        while not reached.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert reached.exists()
        assert len(processes_with(mark)) >= 2
        return process, mark

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children too, where they are what a test finds left
        process.wait()


def left(mark: str) -> list[str]:
    deadline = time.monotonic() + LEFT_SECONDS
    while (found := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, bootstrap.__file__, "tf_towers.worker"],
        [sys.executable, "-c", UNTOLD],
    ],
    ids=["importing", "without prctl"],
)
def test_the_child_of_a_killed_parent_ends(begun, command):
    process, mark = begun("-c", START.format(command))
    process.kill()
    process.wait()
    assert left(mark) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGHUP, 130)])
def test_a_script_ends_with_its_recording(begun, tmp_path, number, code):
    (tmp_path / "script.py").write_text("")
    process, mark = begun("-m", "parity.cli", "record", "--", "script.py")
    process.send_signal(number)
    assert process.wait(60) == code
    assert left(mark) == []
