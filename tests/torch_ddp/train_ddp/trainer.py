"""Starts the example trainer as users do, and reads what it leaves."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from process_tree import end_tree

from torch_ddp import newest_whole, read_whole

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "train_ddp" / "train.py"
RUN_ON = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
TORCHRUN = [sys.executable, *RUN_ON]
WITHIN = 240
STEPS = 36
OPTIONS = ["--batch-size", 8, "--save-every", 2, "--warm-up", 5, "--accumulate", 2, "--quiet"]


def start(command: list[Any], cwd: Path) -> subprocess.Popen:
    """Starts a command with this repository on its path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes: subprocess.Popen, within: float = WITHIN) -> list[str]:
    """Waits for processes and returns what they said; all of it is in the error where one fails or does not end."""
    deadline = time.monotonic() + within
    try:
        logs = [_log(process, deadline) for process in processes]
    finally:
        for process in processes:
            end_tree(process)
            process.stdout.close()
    if any(process.returncode for process in processes):
        raise AssertionError("\n".join(map(_described, processes, logs)))
    return logs


def _log(process: subprocess.Popen, deadline: float) -> str:
    try:
        return process.communicate(timeout=max(0.0, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        end_tree(process)
        return process.communicate(timeout=WITHIN)[0] + "\n(ended here: it took too long)"


def _described(process: subprocess.Popen, log: str) -> str:
    return f"{subprocess.list2cmdline(process.args)}\nended with {process.returncode} after saying:\n{log}"


def result(out: Path) -> dict[str, Any]:
    """Returns result.json."""
    return json.loads((out / "result.json").read_text())


def final(out: Path) -> dict[str, Any]:
    """Returns the newest checkpoint."""
    return read_whole(newest_whole(out / "checkpoints").data)


def same_bits(one: Any, other: Any) -> bool:
    """Returns whether two states are equal to the last bit, in whatever is in them."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_bits(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same_bits(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and one == other
