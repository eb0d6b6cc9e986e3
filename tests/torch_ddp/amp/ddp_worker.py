"""What each of two ranks does for test_distributed: trains exact models under DistributedDataParallel."""

import contextlib
from functools import partial
from itertools import product

import torch
from support.device import put_tensors_there
from torch import nn

from torch_ddp import Rank, amp, parallel, process_group

from .linear_models import LEVELS, Product, sgd

put_tensors_there()
X = torch.tensor([0.5, 1.0])
STEPS = 3
PLANS = ("plain", "no_sync", "bucket_view", "overflow")
WRAPPERS = {
    "torch": nn.parallel.DistributedDataParallel,
    "apex": partial(parallel.DistributedDataParallel, message_size=1),
    "apex_delayed": partial(parallel.DistributedDataParallel, delay_allreduce=True),
}
BUCKET_VIEW = {"torch": "gradient_as_bucket_view", "apex": "retain_allreduce_buffers"}


def run(rank, init_file, result_file):
    torch.set_num_threads(1)
    with process_group(Rank(rank, rank, 2), "gloo", f"file://{init_file}"):
        results = {case: _train(rank, *case) for case in product(LEVELS, PLANS, WRAPPERS)}
    torch.save(results, f"{result_file}{rank}")


def _train(rank, level, plan, wrapper):
    model = Product(1.0)
    model.norm.bias.requires_grad_(False)
    model, optimizer = amp.initialize(
        model, sgd(model), opt_level=level, loss_scale="dynamic", max_loss_scale=128.0, verbosity=0
    )
    ddp = WRAPPERS[wrapper](model, **{BUCKET_VIEW[wrapper.split("_")[0]]: plan == "bucket_view"})
    skipped = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for index in range(1 if plan in ("plain", "overflow") else 2):
            first_of_two = plan == "no_sync" and index == 0
            x = (rank + 1) * (index + 1) * X  # unlike micro-batches: the same twice would hide a lost one
            if plan == "overflow" and (rank, step) == (1, 1):
                x = x * float("inf")
            with (
                ddp.no_sync() if first_of_two else contextlib.nullcontext(),
                amp.scale_loss(ddp(x), optimizer, delay_unscale=first_of_two) as scaled,
            ):
                scaled.backward()
        optimizer.step()
        skipped.append(amp.step_was_skipped(optimizer))
    return {
        "weight": model.weight.detach().float(),
        "masters": [master.detach() for master in amp.master_params(optimizer)],
        "norm": model.norm.weight.detach().float(),
        "skipped": skipped,
        "scale": amp.state_dict()["loss_scaler0"]["loss_scale"],
    }
