"""TensorFlow's own messages go to a file; what a script prints passes, at once and as it is."""

import io
import os
import time
from types import SimpleNamespace

import pytest

from parity.cli.framework_log import FrameworkLog

NOISE = b"""WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795352742.768593    9311 port.cc:153] oneDNN custom operations are on.
2026-11-22 13:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:142] Your CPU supports instructions
WARNING:tensorflow:From train.py:3: foo (from tensorflow) is deprecated and will be removed in a future version.
Instructions for updating:
Use bar instead.
2026-11-22 13:00:00.1: W tensorflow/core/placer.cc:1] Failed to place the graph without changing the devices of some:
  /job:localhost/replica:0/task:0/device:CPU:0].
Colocation Debug Info:

Colocation members, user-requested devices, and framework assigned devices, if any:
  m/w (VariableV2) /device:GPU:0

/usr/lib/python3.7/site-packages/tensorflow/python/framework/dtypes.py:516: FutureWarning: Passing (type, 1) is deprecated
  _np_qint8 = np.dtype([("qint8", np.int8, 1)])
"""
SAID = b"""step 1
INFO:tensorflow:loss = 1.0
  indented by the script
Traceback (most recent call last):
"""


@pytest.fixture
def pipe(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as read, os.fdopen(writing, "wb", buffering=0) as write:
        yield FrameworkLog(read, tmp_path / "new" / "script.log"), write, tmp_path / "new" / "script.log"


def test_messages_of_the_framework_are_kept_and_the_rest_passes(pipe, capfdbinary):
    log, write, path = pipe
    write.write(NOISE + SAID + NOISE)
    write.close()
    log.close()
    assert path.read_bytes() == NOISE * 2
    assert log.lines == 30
    assert capfdbinary.readouterr().err == SAID


def test_a_progress_bar_passes_before_its_line_ends(pipe, capfdbinary):
    log, write, path = pipe
    write.write(b"\r10%")
    deadline, seen = time.monotonic() + 20, b""
    while b"10%" not in seen and time.monotonic() < deadline:
        seen += capfdbinary.readouterr().err
        time.sleep(0.01)
    assert seen == b"\r10%"
    write.write(b" done\nI0000 not from here\n")
    write.close()
    log.close()
    assert capfdbinary.readouterr().err == b" done\n"
    assert path.read_bytes() == b"I0000 not from here\n"


def test_without_messages_there_is_no_file(pipe):
    log, write, path = pipe
    write.write(SAID)
    write.close()
    log.close()
    assert not path.exists()


def test_messages_that_cannot_be_kept_pass(pipe, capfdbinary):
    log, write, path = pipe
    path.parent.write_text("a file where the folder comes")
    write.write(NOISE + SAID)
    write.close()
    log.close()
    assert capfdbinary.readouterr().err == NOISE + SAID
    assert log.lines == 0


def test_a_pipe_is_read_on_where_nobody_takes_what_is_in_it(pipe, monkeypatch):
    log, write, _ = pipe
    # As the process's own: what it could not write is tried again when it is closed, and nobody closes that.
    full = os.open("/dev/full", os.O_WRONLY)
    buffer = io.BufferedWriter(io.FileIO(full, "wb", closefd=False), 16)
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", SimpleNamespace(buffer=buffer))
        for _ in range(4):
            write.write(SAID * 1000)  # more than a pipe holds
        write.close()
        log.close()
    assert not log._thread.is_alive()
    os.dup2(os.open(os.devnull, os.O_WRONLY), full)
    buffer.close()
