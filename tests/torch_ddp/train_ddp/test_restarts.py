"""Kills a rank at random moments under ``torchrun --max-restarts``; the weights must come out as if nothing had been."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from process_tree import children
from trainer import SCRIPT, TORCHRUN, WITHIN, final, finish, result, same_bits, start

STEPS = 30
OPTIONS = ["--steps", STEPS, "--batch-size", 8, "--save-every", 2, "--warm-up", 5, "--accumulate", 2, "--quiet"]
PAUSE = 0.002


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    finish(start([*TORCHRUN, 2, SCRIPT, "--out", "out", *OPTIONS], folder))
    assert result(folder / "out")["restarts"] == 0
    return folder / "out"


def newest_step(out: Path) -> int:
    names = [path.name for path in (out / "checkpoints").glob("step-*.pt")]
    return max((int(name[5:15]) for name in names), default=0)


def kill_a_rank_after(moment: random.Random, torchrun: subprocess.Popen, out: Path) -> int:
    """Kills one rank some time after a random step was saved; returns that step."""
    step, rank, pause = moment.randrange(0, STEPS - 4, 2), moment.randrange(2), moment.uniform(0, 0.03)
    deadline = time.monotonic() + WITHIN
    ranks: list[int] = []
    while time.monotonic() < deadline and torchrun.poll() is None:
        if newest_step(out) >= step and len(ranks := children(torchrun.pid)) == 2:
            break
        time.sleep(PAUSE)
    assert len(ranks) == 2, "the ranks were not there to be killed"
    time.sleep(pause)
    os.kill(ranks[rank], signal.SIGKILL)
    return step


def interrupted(seed: int, folder: Path) -> Path:
    moment = random.Random(seed)
    torchrun = start([*TORCHRUN, 2, "--max-restarts", 3, SCRIPT, "--out", "out", *OPTIONS], folder)
    try:
        kill_a_rank_after(moment, torchrun, folder / "out")
    finally:
        finish(torchrun)
    return folder / "out"


def check(out: Path, uninterrupted: Path) -> None:
    found = result(out)
    assert found["restarts"] == 1
    assert found["updates"] == STEPS
    one, other = final(out), final(uninterrupted)
    assert same_bits(one["parts"], other["parts"])
    assert same_bits(one["random"], other["random"])


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_rank_leaves_no_trace_in_the_weights(uninterrupted, tmp_path, seed):
    check(interrupted(seed, tmp_path), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_rank_killed_at_any_of_twenty_moments_leaves_no_trace_in_the_weights(uninterrupted, tmp_path, seed):
    check(interrupted(seed, tmp_path), uninterrupted)


def test_the_comparison_can_fail(uninterrupted):
    one, other = final(uninterrupted), final(uninterrupted)
    assert same_bits(one, other)
    weight = other["parts"]["model"]["logits.bias"]
    weight[0] = weight[0].nextafter(weight[0] + 1)
    assert not same_bits(one, other)
