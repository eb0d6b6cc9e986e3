"""Starts the example trainer as users do, and reads what it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from process_tree import end_tree

from torch_ddp import newest_whole, read_whole

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "train_ddp" / "train.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
WITHIN = 240


def start(command: list[Any], cwd: Path) -> subprocess.Popen:
    """Starts a command with this repository on its path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes: subprocess.Popen) -> list[str]:
    """Waits for processes and returns what they said; a status other than 0 is an error."""
    try:
        logs = [process.communicate(timeout=WITHIN)[0] for process in processes]
    finally:
        for process in processes:
            end_tree(process)
    for process, log in zip(processes, logs, strict=True):
        assert process.returncode == 0, log
    return logs


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
