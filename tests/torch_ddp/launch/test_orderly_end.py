"""What is left of a process group once it is left: gloo's threads must not outlive it, or they may abort the process.

And that it is left at all: where a wrapped model outlives the group, gloo's thread and the one that holds Python's lock may
wait for each other for ever.
"""

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


@pytest.mark.slow
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


SPARSE_ROUNDS = """
import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_ddp
from torch_ddp import Rank, leave_process_group, process_group
from torch_ddp.process_group import import_what_ddp_imports


def train():
    model = DistributedDataParallel(torch.nn.Embedding(5, 3, sparse=True))
    looked_up = model(torch.tensor([1, 1, 4, 1]))
    looked_up.backward(torch.ones(4, 3))
    return model, looked_up


import_what_ddp_imports()
gc.freeze()  # what is imported is not looked through in every round

def train_in_a_group(how, meeting):
    # What is still held goes as this returns, just behind the group.
    if how == "process_group":
        with process_group(Rank(0, 0, 1), "gloo", meeting):
            still_held = train()
    else:
        dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
        still_held = train()
        leave_process_group() if how == "leave" else dist.destroy_process_group()
    assert still_held[0].module.weight.grad.is_sparse


how, rounds = sys.argv[2], int(sys.argv[3])
for number in range(rounds):
    train_in_a_group(how, Path(sys.argv[1], str(number)).as_uri())
print("left", rounds)
"""


def ended(tmp_path, how, rounds, within):
    try:
        done = subprocess.run(
            [sys.executable, "-c", SPARSE_ROUNDS, str(tmp_path), how, str(rounds)],
            env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": ""},
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    assert done.stdout == f"left {rounds}\n", done.stderr
    return True


def test_a_group_is_left_after_sparse_gradients_though_the_model_is_still_held(tmp_path):
    assert ended(tmp_path, "process_group", 50, 120)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["process_group", "leave"])
def test_a_thousand_groups_are_left_after_sparse_gradients(tmp_path, how):
    assert ended(tmp_path, how, 1000, 500)


@pytest.mark.slow
def test_left_to_the_models_destructor_a_group_hangs_before_long(tmp_path):
    assert not ended(tmp_path, "destroy", 5000, 120)
