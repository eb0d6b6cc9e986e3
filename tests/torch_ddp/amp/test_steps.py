"""What else drives an optimizer: learning rate schedules and closures."""

import pytest
import torch
from torch import nn

from torch_ddp import amp

from .linear_models import RATE, Product, inject, sgd

X = torch.tensor([0.5, 1.0])


def _initialized(model, optimizer):
    return amp.initialize(model, optimizer, opt_level="O2", max_loss_scale=128.0, verbosity=0)


@pytest.mark.parametrize("created", ["before", "after"])
def test_learning_rate_schedules_work_though_the_first_step_is_skipped(created):
    model = Product(1.0)
    optimizer = sgd(model)
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 1)] if created == "before" else []
    model, optimizer = _initialized(model, optimizer)
    schedules = schedules or [torch.optim.lr_scheduler.StepLR(optimizer, 1)]
    for overflow in (True, False):
        optimizer.zero_grad()
        with amp.scale_loss(model(X), optimizer) as scaled:
            scaled.backward()
            if overflow:
                inject(model, "weight")
        optimizer.step()
        schedules[0].step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(RATE * 0.01)
    expected = torch.tensor([1.0, 0.5]) - RATE * 0.1 * X
    torch.testing.assert_close(model.weight.detach().float(), expected, rtol=1e-3, atol=0)


def test_a_closure_is_cast_and_may_not_overflow():
    model = nn.Linear(2, 1, bias=False)
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), RATE), verbosity=0)
    dtypes, scale = [], [1.0]

    def closure():
        optimizer.zero_grad()
        output = model(torch.ones(1, 2))
        dtypes.append(output.dtype)
        with amp.scale_loss(output.float().sum() * scale[0], optimizer) as scaled:
            scaled.backward()
        return output

    scale[0] = 2.0**-8
    optimizer.step(closure)
    assert dtypes == [torch.float16]
    scale[0] = 2.0**8
    with pytest.raises(
        amp.AmpError, match=r"SGD.step: expected finite gradients inside the closure.*without a closure"
    ):
        optimizer.step(closure)


def test_a_closure_is_refused_with_master_weights():
    model = Product(1.0)
    _, optimizer = _initialized(model, sgd(model))
    with pytest.raises(amp.AmpError, match=r"SGD.step: expected no closure with master weights.*call step\(\)\."):
        optimizer.step(lambda: None)
