"""Programs that break off: one message, the exit code that is documented, no process left, no trace that looks whole."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import command_of, environment

from parity.trace import Ownership, Trace, TraceError


@pytest.fixture
def record(record):
    """Records a program of an interpreter of its own: a fork has not begun with the environment by which it is known."""
    return functools.partial(record, python=sys.executable)


def left_over(folder):
    """The processes that run under a recording into a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                own = (process / "environ").read_bytes()
            except OSError:
                continue
            if b"PARITY_PROGRAM_REQUEST=" + str(folder).encode() in own:
                found.append(process.name)
    return found


@pytest.mark.parametrize(
    ("fault", "ranks", "options", "code", "message"),
    [
        pytest.param(
            "exits",
            0,
            (),
            3,
            "3 steps in {out}; the program ended with code 3, so the trace says that it is not complete",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "raises",
            2,
            (),
            1,
            "steps in {out}; the program ended with code 1, so the trace says that it is not complete",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "killed",
            2,
            (),
            137,
            "steps in {out}; the program ended with code 137, so the trace says",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "forks",
            0,
            (),
            137,
            "2 steps in {out}; the program ended with code 137, so the trace says that it is not complete",
            marks=pytest.mark.slow,
        ),
        ("waits_for_killed", 2, ("--timeout", "4"), 2, "and rank 1 is gone. The program is ended."),
        pytest.param(
            "hangs",
            0,
            ("--timeout", "4"),
            2,
            "expected another training step, got none for 4 s. The program is ended.",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "evaluates",
            2,
            (),
            2,
            "expected a training step of every rank, got no optimizer's step",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_program_that_breaks_off_leaves_no_whole_trace(fault, ranks, options, code, message, record, tmp_path):
    recorded = record("faulty", fault, ranks=ranks, options=options)
    assert recorded.code == code, recorded.errors
    assert message.format(out=recorded.trace) in recorded.errors
    with pytest.raises(TraceError):
        Trace(recorded.trace)
    assert left_over(tmp_path) == []
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


@pytest.mark.slow
def test_a_program_that_ends_by_os_exit_is_recorded_to_its_end(record):
    recorded = record("faulty", "hard_exit", ranks=2)
    assert recorded.code == 0, recorded.errors
    assert Trace(recorded.trace).step_numbers == [0, 1, 2, 3]


@pytest.mark.slow  # the default tier kills one that imports, among the cells of tests/faults
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_recording_that_is_killed_takes_the_program_with_it(number, tmp_path):
    trace = tmp_path / "faulty.trace"
    own = [*command_of("faulty", 2), "hangs", "--out", str(tmp_path / "weights")]
    words = [sys.executable, "-m", "parity.cli", "record", "--out", str(trace), "--", *own]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as recording:
        assert recording.stdout is not None
        assert recording.stdout.readline() == b"hangs\n"
        recording.send_signal(number)
    end = time.monotonic() + 30
    while (left_over(tmp_path) or [each for each in os.listdir(tmp_path) if each[0] == "."]) and time.monotonic() < end:
        time.sleep(0.1)
    assert left_over(tmp_path) == []
    assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []
    with pytest.raises(TraceError):
        Trace(trace)


def test_a_folder_that_is_being_recorded_into_is_refused(record, tmp_path):
    out = tmp_path / "faulty.trace"
    with Ownership(out):
        done = record("faulty", "exits", ranks=0)
    assert (done.code, done.output) == (2, "")
    assert done.errors == (
        f"parity: trace: expected {out} for one recording alone, got another process that writes to it. "
        "Name another folder, or wait until that has ended.\n"
    )
