"""Trains small models under the import name `apex`, whichever package that is, and saves all that came out.

Launch: `python training_runs.py RESULT`.
"""

import itertools
import sys

import torch
from apex import amp
from apex.fp16_utils import FP16_Optimizer, network_to_half
from torch import nn

STEPS = 20
OVERFLOWS = (3, 11)
OPTIMIZERS = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=1e-3, eps=1e-4),
}
DYNAMIC = {"scale_window": 7, "init_scale": 2.0**12, "max_loss_scale": 2.0**13}


def main(result):
    torch.set_num_threads(1)
    runs = {}
    for case in itertools.product(("O0", "O1", "O2", "O3"), OPTIMIZERS, (None, 128.0, "dynamic"), (1, 2)):
        runs[("amp", *case)] = _amp_run(*case)
    for case in itertools.product(({"static_loss_scale": 128.0}, {"dynamic_loss_scale": True}), (True, False)):
        runs[("FP16_Optimizer", *map(str, case))] = _fp16_optimizer_run(*case)
    torch.save(runs, result)


def _net():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.GroupNorm(2, 4), nn.GELU(),
        nn.AvgPool2d(5), nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, 3),
    )  # fmt: skip


def _loss(model, blow_up):
    x, y = torch.randn(8, 2, 5, 5), torch.randint(0, 3, (8,))
    return nn.functional.cross_entropy(model(x).float(), y) * (float("inf") if blow_up else 1.0)


def _amp_run(level, optimizer, loss_scale, passes):
    model = _net()
    model, optimizer = amp.initialize(
        model, OPTIMIZERS[optimizer](model.parameters()), opt_level=level, loss_scale=loss_scale, verbosity=0
    )
    dynamic = loss_scale == "dynamic" or (loss_scale is None and level in ("O1", "O2"))
    scales = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for index in range(passes):
            loss = _loss(model, blow_up=dynamic and step in OVERFLOWS and index == 0)
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
        scales.append(amp.state_dict()["loss_scaler0"]["loss_scale"])
    if level == "O1":
        amp._amp_state.handle._deactivate()
    return _outcome(model, amp.master_params(optimizer), scales)


def _fp16_optimizer_run(scaling, delayed):
    dynamic = "dynamic_loss_scale" in scaling
    arguments = {"dynamic_loss_args": DYNAMIC} if dynamic else {}
    model = network_to_half(_net())
    optimizer = FP16_Optimizer(OPTIMIZERS["SGD"](model.parameters()), verbose=False, **scaling, **arguments)
    scales = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for index in range(2 if delayed else 1):
            loss = _loss(model, blow_up=dynamic and step in OVERFLOWS and index == 0)
            optimizer.backward(loss, update_master_grads=not delayed)
        if delayed:
            optimizer.update_master_grads()
        optimizer.clip_master_grads(1.0)
        optimizer.step()
        scales.append((optimizer.loss_scale, bool(optimizer.overflow)))
    return _outcome(model, (weight for group in optimizer.param_groups for weight in group["params"]), scales)


def _outcome(model, masters, scales):
    tensors = [*model.parameters(), *model.buffers(), *masters]
    return {"tensors": [tensor.detach().clone() for tensor in tensors], "scales": scales}


if __name__ == "__main__":
    main(sys.argv[1])
