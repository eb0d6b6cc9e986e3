"""What is left of a process group once it is left: gloo's threads must not outlive it, or they may abort the process."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import os, sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import GradientReduction, Rank, process_group


def threads():
    return sorted(task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir())


def train(reduce):
    model = DistributedDataParallel(torch.nn.Linear(3, 2))
    model.itself = [model]  # only reachable from itself, once this function has returned
    GradientReduction(model, reduce).keep = True
    for _ in range(2):
        model(torch.ones(4, 3)).sum().backward()


for number, reduce in enumerate(["mean", "ordered_sum"]):
    with process_group(Rank(0, 0, 1), "gloo", Path(sys.argv[1], str(number)).as_uri()):
        train(reduce)
        print("within", " ".join(threads()))
    print("after", " ".join(threads()))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc, which names threads: run on Linux")
def test_no_thread_of_gloo_outlives_its_group(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    within, after = (
        [line for line in done.stdout.splitlines() if line.startswith(when)] for when in ("within", "after")
    )
    assert len(within) == len(after) == 2
    assert all("gloo" in line for line in within)
    assert not any("gloo" in line for line in after)
