"""Kills a rank at random moments under ``torchrun --max-restarts``; the weights must come out as if nothing had been."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from process_tree import children
from trainer import OPTIONS, SCRIPT, STEPS, TORCHRUN, WITHIN, final, finish, result, same_bits, start

from torch_ddp import newest_whole, read_whole

LATEST = STEPS - 10  # later the training may have ended before the kill
PAUSE = 0.002
MAX_RESTARTS = 3


def newest_step(out: Path) -> int:
    names = [path.name for path in (out / "checkpoints").glob("step-*.pt")]
    return max((int(name[5:15]) for name in names), default=0)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "the moment did not come"
        time.sleep(PAUSE)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def kill_a_rank_after(moment: random.Random, torchrun: subprocess.Popen, out: Path) -> int:
    """Kills one rank some time after a random step was saved; returns that step."""
    step, rank, pause = moment.randrange(0, LATEST, 2), moment.randrange(2), moment.uniform(0, 0.03)
    wait_for(lambda: len(children(torchrun.pid)) == 2)
    ranks = children(torchrun.pid)
    wait_for(lambda: newest_step(out) >= step)
    time.sleep(pause)
    os.kill(ranks[rank], signal.SIGKILL)
    return step


def interrupted(seed: int, folder: Path) -> Path:
    moment = random.Random(seed)
    torchrun = start(
        [*TORCHRUN, 2, "--max-restarts", MAX_RESTARTS, SCRIPT, "--out", "out", "--steps", STEPS, *OPTIONS], folder
    )
    try:
        kill_a_rank_after(moment, torchrun, folder / "out")
    finally:
        finish(torchrun)
    return folder / "out"


def check(out: Path, uninterrupted: Path) -> None:
    found = result(out)
    assert (
        1 <= found["restarts"] <= MAX_RESTARTS
    )  # a start may itself fail on a busy machine; torchrun then starts again
    assert found["updates"] == STEPS
    one, other = final(out), final(uninterrupted)
    assert same_bits(one["parts"], other["parts"])
    assert same_bits(one["random"], other["random"])


@pytest.mark.parametrize("seed", [0])  # kills rank 1; the page on training kills rank 0
def test_a_killed_rank_leaves_no_trace_in_the_weights(uninterrupted, tmp_path, seed):
    check(interrupted(seed, tmp_path), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *range(101, 120)])
def test_a_rank_killed_at_any_of_twenty_moments_leaves_no_trace_in_the_weights(uninterrupted, tmp_path, seed):
    check(interrupted(seed, tmp_path), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_killed_on_one_of_two_machines_leaves_no_trace_in_the_weights(uninterrupted, tmp_path, victim):
    # Each machine's torchrun counts its own restarts, and the ranks may be numbered anew.
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}", "--local-addr", "localhost"]
    nodes = [*TORCHRUN[:3], "--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 3, *meet]
    machines = [
        start([*nodes, SCRIPT, "--out", f"out-{number}", "--steps", STEPS, *OPTIONS], tmp_path) for number in range(2)
    ]
    try:
        wait_for(lambda: max(newest_step(tmp_path / f"out-{number}") for number in range(2)) >= 4)
        [rank] = children(machines[victim].pid)
        os.kill(rank, signal.SIGKILL)
    finally:
        finish(*machines)
    found = [
        read_whole(whole.data) for number in range(2) if (whole := newest_whole(tmp_path / f"out-{number}/checkpoints"))
    ]
    last = max(found, key=lambda state: state["progress"]["step"])
    assert last["progress"]["step"] == STEPS
    assert same_bits(last["parts"], final(uninterrupted)["parts"])
    assert same_bits(last["random"], final(uninterrupted)["random"])


def test_the_comparison_can_fail(uninterrupted):
    one, other = final(uninterrupted), final(uninterrupted)
    assert same_bits(one, other)
    weight = other["parts"]["model"]["logits.bias"]
    weight[0] = weight[0].nextafter(weight[0] + 1)
    assert not same_bits(one, other)
