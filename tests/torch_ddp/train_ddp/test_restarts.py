"""Kills ranks at random moments under ``torchrun --max-restarts``; the weights must come out as if nothing had been."""

import os
import random
import signal
import socket
from pathlib import Path

import pytest
import torch
from killing import KILLS, MAX_RESTARTS, interrupted, newest_step, wait_for
from process_tree import children
from trainer import OPTIONS, RUN_ON, SCRIPT, STEPS, final, finish, result, same_bits, start

from torch_ddp import newest_whole, read_whole


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def check(out: Path, uninterrupted: Path) -> None:
    found = result(out)
    assert KILLS <= found["restarts"] <= MAX_RESTARTS
    assert found["updates"] == STEPS
    one, other = final(out), final(uninterrupted)
    assert same_bits(one["parts"], other["parts"])
    assert same_bits(one["random"], other["random"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))  # the page on training has another, three ranks of test_reduction.py too
def test_ranks_killed_at_any_of_twelve_moments_leave_no_trace_in_the_weights(
    uninterrupted, torch_python, tmp_path, seed
):
    check(interrupted(torch_python, random.Random(seed), tmp_path, 2, OPTIONS), uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_killed_on_one_of_two_machines_leaves_no_trace_in_the_weights(
    uninterrupted, torch_python, tmp_path, victim
):
    # Each machine's torchrun counts its own restarts, and the ranks may be numbered anew.
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}", "--local-addr", "localhost"]
    nodes = [torch_python, *RUN_ON[:2], "--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 3, *meet]
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


def made_state():
    parts = {"model": {"logits.bias": torch.ones(3)}, "optimizer": {"state": {0: {"step": torch.tensor(36.0)}}}}
    return {"parts": parts, "random": [{"torch": torch.arange(4, dtype=torch.uint8), "python": (3, (1, 2), None)}]}


def test_the_comparison_can_fail():
    assert same_bits(made_state(), made_state())
    moved = made_state()
    weight = moved["parts"]["model"]["logits.bias"]
    weight[0] = weight[0].nextafter(weight[0] + 1)
    drawn, later = made_state(), made_state()
    drawn["random"][0]["python"] = (3, (1, 3), None)
    later["parts"]["optimizer"]["state"][0]["step"] = torch.tensor(36)
    for other in (moved, drawn, later):
        assert not same_bits(made_state(), other)
