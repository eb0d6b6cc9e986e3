"""Kills a rank of the trainer at a random moment under ``torchrun --max-restarts``."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from process_tree import children
from trainer import SCRIPT, STEPS, TORCHRUN, WITHIN, finish, start

LATEST = STEPS - 10  # later the training may have ended before the kill
PAUSE = 0.002
MAX_RESTARTS = 3


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


def kill_a_rank_after(moment: random.Random, torchrun: subprocess.Popen, out: Path, ranks: int) -> int:
    """Kills one rank some time after a random step was saved; returns that step."""
    step, rank, pause = moment.randrange(0, LATEST, 2), moment.randrange(ranks), moment.uniform(0, 0.03)
    wait_for(lambda: len(children(torchrun.pid)) == ranks)
    started = children(torchrun.pid)
    wait_for(lambda: newest_step(out) >= step)
    time.sleep(pause)
    os.kill(started[rank], signal.SIGKILL)
    return step


def interrupted(moment: random.Random, folder: Path, ranks: int, options: list[Any]) -> Path:
    """Trains with one rank killed; returns the folder that the training leaves."""
    torchrun = start(
        [*TORCHRUN, ranks, "--max-restarts", MAX_RESTARTS, SCRIPT, "--out", "out", "--steps", STEPS, *options], folder
    )
    try:
        kill_a_rank_after(moment, torchrun, folder / "out", ranks)
    finally:
        finish(torchrun)
    return folder / "out"
