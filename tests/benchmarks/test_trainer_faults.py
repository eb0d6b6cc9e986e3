"""What interrupts trainings says when something does not hold, and a sample of it."""

import hashlib
import importlib
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torch_ddp import write_whole

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "trainer_faults.py"


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    yield importlib.import_module("trainer_faults")
    for name in ("trainer_faults", "trainer_starts"):
        sys.modules.pop(name, None)


def written(folder, step, weight):
    state = {"progress": {"step": step}, "parts": {"model": {"weight": torch.tensor([1.0, weight])}}}
    return write_whole(folder / "checkpoints", step, state)


@pytest.mark.parametrize(
    ("weight", "begun", "said"),
    [(2.0, 3, ""), (2.0, 4, "went back to 3"), (float("nan"), 3, "the newest is not finite")],
)
def test_what_is_wrong_with_the_newest_checkpoint_is_said(faults, tmp_path, weight, begun, said):
    assert faults.state_of(tmp_path, 0) == ""
    assert faults.state_of(tmp_path, 1) == "lost all checkpoints"
    written(tmp_path, 3, weight)
    assert faults.state_of(tmp_path, begun) == said


def test_half_a_checkpoint_is_no_newest(faults, tmp_path):
    path = written(tmp_path, 3, 1.0)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert faults.state_of(tmp_path, 0) == "the newest is damaged"
    assert not path.stem.endswith(hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest())


def test_other_bits_are_seen(faults):
    one = {"parts": [torch.ones(3)], "random": []}
    other = {"parts": [torch.tensor([1.0, 1.0, 1.0 + 2.0**-23])], "random": []}
    assert faults.same_bits(one, one) and not faults.same_bits(one, other)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc: run on Linux")
def test_a_training_interrupted_in_four_ways_ends_as_one_that_was_not():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    which = ["SIGKILL", "SIGTERM", "disk full", "NaN"]
    command = [sys.executable, SCRIPT, "--forked", "--moments", "4", "--seed", "3", "--faults", *which]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 moments: 4 hold; trainings with other bits at their end: 0" in done.stdout


def test_a_training_that_ended_before_its_moment_is_no_moment(faults, tmp_path, monkeypatch):
    ended = SimpleNamespace(process=SimpleNamespace(poll=lambda: 0), starts=faults.Starts(), begun=0.0, within=0.0)
    monkeypatch.setattr(faults, "Training", lambda *asked: ended)
    assert faults.interrupt("SIGTERM", tmp_path, tmp_path / "out", random.Random(1), faults.Starts()) is None
