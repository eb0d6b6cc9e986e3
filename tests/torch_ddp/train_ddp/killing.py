"""Kills ranks of the trainer at random moments under ``torchrun --max-restarts``."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from process_tree import children
from trainer import RUN_ON, SCRIPT, STEPS, WITHIN, finish, start

LATEST = STEPS - 10  # later the training may have ended before the kill
PAUSE = 0.002
KILLS = 3  # in one training: to start again costs more than to train
MAX_RESTARTS = KILLS + 2  # a start may itself fail on a busy machine; torchrun then starts again


def newest_step(out: Path) -> int:
    """Returns the number of updates that the newest checkpoint holds; 0 where there is none."""
    names = [path.name for path in (out / "checkpoints").glob("step-*.pt")]
    return max((int(name[5:15]) for name in names), default=0)


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, "the moment did not come"
        time.sleep(PAUSE)


def kill_ranks(moments: random.Random, torchrun: subprocess.Popen, out: Path, ranks: int) -> None:
    """Kills one rank each time: some time after one of some random steps was saved, which may be while it starts again."""
    earlier: list[int] = []
    for step in sorted(moments.choices(range(0, LATEST, 2), k=KILLS)):
        victim, pause = moments.randrange(ranks), moments.uniform(0, 0.03)
        started = new_children(torchrun.pid, earlier, ranks)
        wait_for(lambda least=step: newest_step(out) >= least)
        time.sleep(pause)
        os.kill(started[victim], signal.SIGKILL)
        earlier += started


def new_children(parent: int, earlier: list[int], count: int) -> list[int]:
    """Waits until a process has so many children, none of them one of those before; returns them."""
    found: list[int] = []

    def complete() -> bool:
        found[:] = children(parent)
        return len(found) == count and not {*earlier} & {*found}

    wait_for(complete)
    return found


def interrupted(python: str, moments: random.Random, folder: Path, ranks: int, options: list[Any]) -> Path:
    """Trains with ranks killed; returns the folder that the training leaves."""
    program = [SCRIPT, "--out", "out", "--steps", STEPS, *options]
    torchrun = start([python, *RUN_ON, ranks, "--max-restarts", MAX_RESTARTS, *program], folder)
    try:
        kill_ranks(moments, torchrun, folder / "out", ranks)
    finally:
        finish(torchrun)
    return folder / "out"
