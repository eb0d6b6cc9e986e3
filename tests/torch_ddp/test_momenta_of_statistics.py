"""Momenta of moving statistics, rounded as a graph rounds them."""

import numpy as np
import pytest
import torch
from torch import nn

from torch_ddp.momenta import round_momenta


def test_momenta_are_rounded_in_the_way_that_the_graph_moves_its_statistics():
    model = torch.nn.Sequential(*(torch.nn.BatchNorm1d(2, momentum=0.01) for _ in range(4)))
    fused, unfused = float(np.float32(1.0) - np.float32(0.99)), float(np.float32(0.01))
    round_momenta(
        model,
        {"1.running_mean": (unfused / 0.01, 0.0), "2.running_var": (fused / 0.01, 0.0), "3.running_var": (1.0, 0.0)},
    )
    assert [norm.momentum for norm in model] == [fused, unfused, fused, 0.01]
    alone = torch.nn.BatchNorm1d(2, momentum=0.01)
    round_momenta(alone, {"running_mean": (unfused / 0.01, 0.0)})
    assert alone.momentum == unfused


class OwnNorm(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.register_buffer("moving_mean", torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        with torch.no_grad():
            self.moving_mean.lerp_(x.mean(0), self.share)
        return x


def test_statistics_of_a_ports_own_norm_move_as_far_as_the_graphs_rounded_momentum_makes_them():
    x = torch.tensor([[1.0, 3.0], [2.0, 5.0]], dtype=torch.float64)
    rounded = float(np.float32(0.1))
    for measured, wanted in ((rounded / 0.1 * (1 + 1e-14), rounded), (1.5, 0.1), (1.0, 0.1)):
        model = nn.Sequential(OwnNorm(0.1))
        round_momenta(model, {"0.moving_mean": (measured, 0.0)})
        model(x)
        model(x)
        np.testing.assert_allclose(
            model[0].moving_mean.numpy(), x.mean(0).numpy() * (1 - (1 - wanted) ** 2), rtol=1e-15
        )


@pytest.mark.parametrize("share", [0.001, 0.0003])
def test_what_float32_makes_of_a_momentum_near_one_is_no_limit_but_the_graphs_own_ratio(share):
    x = torch.tensor([[1.0, 3.0], [2.0, 5.0]], dtype=torch.float64)
    ratio = float(np.float32(1.0) - np.float32(1.0 - share)) / share
    assert 1e-5 < abs(ratio - 1.0) < 4e-5
    for measured, wanted in ((ratio * (1 + 1e-12), ratio), (ratio * (1 + 1e-7), 1.0)):
        model = nn.Sequential(OwnNorm(share))
        round_momenta(model, {"0.moving_mean": (measured, 0.0)})
        model(x)
        np.testing.assert_allclose(model[0].moving_mean.numpy(), x.mean(0).numpy() * share * wanted, rtol=1e-12)


def test_a_momentum_of_zero_which_freezes_the_statistics_stays_zero():
    model = nn.BatchNorm1d(2, momentum=0.0)
    round_momenta(model)
    assert model.momentum == 0.0


TAKEN, KEPT = float(np.float32(0.2)), float(np.float32(0.8))
DRIFT = KEPT + TAKEN - 1.0


@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_statistics_that_a_graph_keeps_and_takes_by_constants_of_their_own_drift(noise):
    x = torch.tensor([[1.0, 3.0], [2.0, 5.0]], dtype=torch.float64)
    model = nn.Sequential(OwnNorm(0.2), nn.BatchNorm1d(2, momentum=0.2, affine=False).double())
    moved = (TAKEN / 0.2 + noise, DRIFT - noise)
    assert abs(DRIFT) > 1e-9
    round_momenta(model, {"0.moving_mean": moved, "1.running_mean": moved, "1.running_var": moved})
    model(x)
    before = model[0].moving_mean.clone(), model[1].running_mean.clone(), model[1].running_var.clone()
    model(x)
    after = model[0].moving_mean, model[1].running_mean, model[1].running_var
    for old, new, batch in zip(before, after, (x.mean(0), x.mean(0), x.var(0)), strict=True):
        np.testing.assert_allclose(new, old * KEPT + batch * TAKEN, rtol=1e-15)


@pytest.mark.parametrize("drift", [1e-7, -1e-7])
def test_a_drift_beyond_float32_is_no_rounding(drift):
    x = torch.tensor([[1.0, 3.0], [2.0, 5.0]], dtype=torch.float64)
    model = nn.Sequential(OwnNorm(0.2))
    round_momenta(model, {"0.moving_mean": (TAKEN / 0.2, drift)})
    model(x)
    np.testing.assert_allclose(model[0].moving_mean, x.mean(0) * 0.2, rtol=1e-15)
