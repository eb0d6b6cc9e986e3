"""Whose a trace is: a forked process leaves it alone, a second recording is refused, and nothing stays behind."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.trace import Ownership, Trace, TraceError, TraceWriter, ownership

HOLD = "import sys; from parity.trace import Ownership; held = Ownership(sys.argv[1]); print('held', flush=True); {}"
FORK = """
import os, sys
import numpy as np
from parity.trace import TraceWriter
writer = TraceWriter(sys.argv[1], {"package": "test"})
writer.init({"var/w": np.zeros(2)})
child = os.fork()
if not child:
    writer.init({"var/w": np.ones(2)})
    writer.step(0, {"var/w": np.ones(2)})
    writer.add_facts(written_by="child")
    writer.close()
    os._exit(0)
os.waitpid(child, 0)
"""


def elsewhere(program: str, folder: Path, **streams) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", program, str(folder)], text=True, **streams)


def forked(monkeypatch):
    monkeypatch.setattr(ownership.os, "getpid", lambda: -1)


def test_a_writer_does_nothing_in_another_process(tmp_path, monkeypatch):
    writer = TraceWriter(tmp_path / "trace", {"package": "test"})
    with monkeypatch.context() as patched:
        forked(patched)
        writer.init({"var/w": np.zeros(2)})
        writer.step(0, {"var/w": np.zeros(2)})
        writer.add_facts(written_by="child")
        writer.close()
    assert os.listdir(tmp_path / "trace") == ["trace.json"]
    trace = Trace(tmp_path / "trace", whole=False)
    assert (trace.complete, dict(trace.facts), trace.step_numbers) == (False, {}, [])


def test_its_owner_writes_and_closes(tmp_path):
    writer = TraceWriter(tmp_path / "trace", {"package": "test"})
    writer.init({"var/w": np.zeros(2)})
    writer.step(0, {"var/w": np.zeros(2)})
    writer.close(written_by="owner")
    trace = Trace(tmp_path / "trace")
    assert (trace.complete, trace.facts["written_by"], trace.step_numbers) == (True, "owner", [0])


def test_a_forked_child_neither_writes_nor_closes(tmp_path):
    assert elsewhere(FORK, tmp_path / "trace").wait(60) == 0
    trace = Trace(tmp_path / "trace", whole=False)
    assert not trace.complete
    assert dict(trace.facts) == {}
    assert trace.init().read("var/w").tolist() == [0.0, 0.0]
    assert not (tmp_path / "trace" / "step-000000.safetensors").exists()


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    with elsewhere(HOLD.format("input()"), tmp_path / "a", stdout=subprocess.PIPE, stdin=subprocess.PIPE) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(TraceError) as refused:
            TraceWriter(tmp_path / "a", {"package": "test"})
        TraceWriter(tmp_path / "b", {"package": "test"}).close()
        first.kill()
    assert str(refused.value) == (
        f"trace: expected {tmp_path / 'a'} for one recording alone, got another process that writes to it. "
        "Name another folder, or wait until that has ended."
    )
    TraceWriter(tmp_path / "a", {"package": "test"}).close()
    assert os.listdir(tmp_path / "a") == ["trace.json"]


def test_a_child_that_outlives_its_parent_does_not_hold_the_folder(tmp_path):
    lives_on = "import os, time; os.fork() or (os.close(1), time.sleep(60))"
    with elsewhere(HOLD.format(lives_on), tmp_path / "a", stdout=subprocess.PIPE, start_new_session=True) as first:
        assert first.stdout.read() == "held\n"
        first.wait(60)
        try:
            Ownership(tmp_path / "a").release()
        finally:
            os.killpg(first.pid, 9)


def test_one_process_may_hold_a_folder_several_times(tmp_path):
    with Ownership(tmp_path / "a"):
        with Ownership(tmp_path / "a"):
            pass
        assert refused_elsewhere(tmp_path / "a")
    assert not refused_elsewhere(tmp_path / "a")


def refused_elsewhere(folder: Path) -> bool:
    process = elsewhere(HOLD.format("pass"), folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return "for one recording alone" in process.communicate(timeout=60)[1]


TAKE = (
    "import os, sys; from parity.trace import Ownership; Ownership(sys.argv[1]); Ownership(sys.argv[1])\n"
    "print('PARITY_TRACE_HANDED_ON' in os.environ, flush=True)"
)


def test_a_folder_is_handed_on_to_a_child_and_to_nobody_else(tmp_path):
    with Ownership(tmp_path / "a") as held:
        variables = {**os.environ, **held.handed_on()}
        child = elsewhere(TAKE, tmp_path / "a", env=variables, stdout=subprocess.PIPE)
        assert child.communicate(timeout=60)[0] == "False\n"
        assert child.returncode == 0
        assert refused_elsewhere(tmp_path / "a")
        # Of another folder nothing is said by that.
        with Ownership(tmp_path / "b"):
            other = elsewhere(TAKE, tmp_path / "b", env=variables, stderr=subprocess.PIPE)
            assert "for one recording alone" in other.communicate(timeout=60)[1]


def test_a_trace_that_is_closed_is_free(tmp_path):
    writer = TraceWriter(tmp_path / "a", {"package": "test"})
    assert refused_elsewhere(tmp_path / "a")
    writer.close()
    assert not refused_elsewhere(tmp_path / "a")


def test_a_folder_that_was_made_and_stayed_empty_goes(tmp_path):
    (tmp_path / "before").mkdir()
    for name in ("before", "made", "filled"):
        with Ownership(tmp_path / name):
            if name == "filled":
                (tmp_path / name / "file").write_text("")
    assert sorted(os.listdir(tmp_path)) == ["before", "filled"]


def test_a_folder_that_was_removed_and_made_anew_is_taken_anew(tmp_path):
    first = Ownership(tmp_path / "a")
    (tmp_path / "a").rmdir()
    with Ownership(tmp_path / "a"):
        assert refused_elsewhere(tmp_path / "a")
    first.release()


def test_folders_that_cannot_be_locked_are_written_to(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(ownership.fcntl, "flock", flock)
    TraceWriter(tmp_path / "a", {"package": "test"}).close()
    assert Trace(tmp_path / "a").complete


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(TraceError, match=r"^trace: expected a folder that can be written at .*/a, got: File exists\. "):
        TraceWriter(tmp_path / "a", {"package": "test"})
