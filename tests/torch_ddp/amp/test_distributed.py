"""Two ranks under DistributedDataParallel: mean gradients, accumulation, and one decision about a skipped step."""

import time

import pytest
import torch
import torch.multiprocessing as mp

from . import ddp_worker
from .linear_models import LEVELS, momentum_steps

TIMEOUT = 120


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    context = mp.spawn(ddp_worker.run, args=(str(folder / "init"), str(folder / "result")), nprocs=2, join=False)
    deadline = time.monotonic() + TIMEOUT
    try:
        while not context.join(timeout=1):
            assert time.monotonic() < deadline, f"the ranks did not end within {TIMEOUT} s"
    finally:
        for process in context.processes:
            process.kill()
            process.join()
    return [torch.load(folder / f"result{rank}") for rank in range(2)]


@pytest.mark.covering(2)
@pytest.mark.parametrize("opt_level", LEVELS)
@pytest.mark.parametrize("plan", ddp_worker.PLANS)
@pytest.mark.parametrize("wrapper", ddp_worker.WRAPPERS)
def test_two_ranks_train_as_one_by_hand_on_the_mean_gradient(ranks, opt_level, plan, wrapper):
    mean = 1.5 * ddp_worker.X * (3 if plan in ("no_sync", "bucket_view") else 1)
    steps = [mean] * ddp_worker.STEPS
    if plan == "overflow":
        steps[1] = None
    for result in (rank[opt_level, plan, wrapper] for rank in ranks):
        assert torch.equal(result["weight"].double(), momentum_steps(torch.tensor([1.0, 0.5]), steps))
        assert torch.equal(result["norm"].double(), momentum_steps(torch.ones(2), steps))
        assert torch.equal(result["masters"][0].to(result["weight"].dtype), result["weight"])
        assert result["skipped"] == [step is None for step in steps]
        assert result["scale"] == (64.0 if plan == "overflow" else 128.0)
