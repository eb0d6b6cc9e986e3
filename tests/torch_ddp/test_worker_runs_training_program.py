"""What a generated training program is given in its proof: rates, nothing more."""

import pytest
import torch

from torch_ddp.worker.training_program import _take_rates
from torch_ddp.worker.user_schedule import step_without_updates


def updated_by(own, recorded):
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.SGD([weight], lr=own)
    _take_rates(optimizer, [recorded])
    optimizer.step()
    return -float(weight.detach())


@pytest.mark.parametrize("share", [2.0**-24, -(2.0**-24), 2.0**-19])
def test_a_rate_that_differs_by_rounding_of_float32_is_the_recorded_one(share):
    assert updated_by(0.1 * (1 + share), 0.1) == 0.1


@pytest.mark.parametrize("share", [2.0**-17, -(2.0**-17), 1.0])
def test_a_rate_that_differs_by_more_stays_the_programs_own(share):
    assert updated_by(0.1 * (1 + share), 0.1) == 0.1 * (1 + share)


def test_groups_with_rates_of_their_own_stay_in_proportion_to_the_recorded_rate():
    weights = [torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    groups = [
        {"params": [weight], "lr": rate * (1 + 2.0**-19)} for weight, rate in zip(weights, (0.5, 2.0), strict=True)
    ]
    optimizer = torch.optim.SGD(groups)
    _take_rates(optimizer, [0.5])
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert [-float(weight.detach()) for weight in weights] == pytest.approx([0.5, 2.0], rel=1e-15)


def test_a_schedule_begins_where_the_recording_does():
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    step_without_updates(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step)), 3)
    assert optimizer.param_groups[0]["lr"] == 0.25
