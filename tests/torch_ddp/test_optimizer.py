import numpy as np
import pytest
import torch
from torch import nn

from torch_ddp import (
    TorchDdpError,
    hyper_parameters,
    like_tf,
    make_optimizer,
    named_counters,
    named_slots,
    round_hyper_parameters,
    set_counters,
)
from torch_ddp.step.optimizer import round_momenta

NATIVE = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), set()),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"momentum_buffer"}),
    "adam": (lambda p: torch.optim.Adam(p, lr=0.1), {"exp_avg", "exp_avg_sq"}),
    "amsgrad": (lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True), {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.1), {"exp_avg", "exp_avg_sq"}),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.1), {"square_avg"}),
    "centered": (
        lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
        {"square_avg", "momentum_buffer", "grad_avg"},
    ),
}
LIKE_TF = {
    "sgd": (lambda p: like_tf.GradientDescent(p, lr=0.1), set()),
    "momentum": (lambda p: like_tf.Momentum(p, lr=0.1, momentum=0.9), {"momentum"}),
    "adam": (lambda p: like_tf.Adam(p, lr=0.1), {"m", "v"}),
}
ALL = {f"torch {name}": made for name, made in NATIVE.items()} | {f"tf {name}": made for name, made in LIKE_TF.items()}


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2).double()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    inputs = torch.arange(12.0, dtype=torch.float64).reshape(4, 3) / 7
    for _ in range(steps):
        optimizer.zero_grad()
        (model(inputs) ** 2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", ALL)
def test_slots_are_there_by_name_before_the_first_step_and_are_the_ones_that_it_uses(kind):
    make, expected = ALL[kind]
    model = net()
    optimizer = make(model.parameters())
    slots = named_slots(optimizer, model)
    assert set(slots) == {(slot, name) for slot in expected for name in ("weight", "bias")}
    train(model, optimizer, 2)
    after = named_slots(optimizer, model)
    assert set(after) == set(slots)
    assert all(after[key].shape == dict(model.named_parameters())[key[1]].shape for key in after)
    assert all(bool(value.any()) for value in after.values())


@pytest.mark.parametrize("kind", ALL)
def test_making_the_slots_early_changes_no_update(kind):
    make, _ = ALL[kind]
    results = []
    for early in (False, True):
        model = net()
        optimizer = make(model.parameters())
        if early:
            named_slots(optimizer, model)
        train(model, optimizer, 3)
        results.append([value.detach().clone() for value in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("kind", ALL)
def test_slots_and_counters_are_the_whole_state_of_an_optimizer(kind):
    make, _ = ALL[kind]
    straight = net()
    one = make(straight.parameters())
    train(straight, one, 2)
    resumed = net()
    resumed.load_state_dict(straight.state_dict())
    other = make(resumed.parameters())
    source = named_slots(one, straight)
    with torch.no_grad():
        for key, value in named_slots(other, resumed).items():
            value.copy_(source[key])
    set_counters(other, {**named_counters(one), "global_step": 2.0})
    train(straight, one, 2)
    train(resumed, other, 2)
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), resumed.parameters(), strict=True))


def test_momentum_of_zero_has_no_slot():
    model = net()
    assert named_slots(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.0), model) == {}


def test_every_hyper_parameter_becomes_what_a_float32_graph_holds():
    optimizer = torch.optim.Adam(net().parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, foreach=False)
    round_hyper_parameters(optimizer)
    group = optimizer.param_groups[0]
    assert group["lr"] == float(np.float32(1e-3)) != 1e-3
    assert group["betas"] == (float(np.float32(0.9)), float(np.float32(0.999)))
    assert group["eps"] == float(np.float32(1e-8))
    assert group["foreach"] is False
    before = dict(group)
    round_hyper_parameters(optimizer)
    assert {name: value for name, value in group.items() if name != "params"} == {
        name: value for name, value in before.items() if name != "params"
    }


def test_a_described_optimizer_is_tensorflows():
    model = net()
    described = {"name": "momentum", "learning_rate": 0.5, "momentum": 0.25, "use_nesterov": True}
    optimizer = make_optimizer(described, model)
    assert type(optimizer) is like_tf.Momentum
    found = hyper_parameters(optimizer)
    assert found["name"] == "torch_ddp.like_tf.optim.momentum.Momentum"
    assert (found["learning_rate"], found["momentum"], found["use_nesterov"]) == (0.5, 0.25, True)
    assert "params" not in found


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(TorchDdpError) as error:
        make_optimizer({"name": "lion", "learning_rate": 1.0}, net())
    assert (
        str(error.value)
        == "optimizer: expected one of adadelta, adagrad, adam, ftrl, momentum, rmsprop, sgd, got 'lion'."
    )


def test_the_counters_of_adam_are_its_powers_of_beta():
    model = net()
    optimizer = like_tf.Adam(model.parameters(), lr=0.1, beta1=0.5, beta2=0.75)
    train(model, optimizer, 1)
    assert named_counters(optimizer) == {
        "learning_rate": float(np.float32(0.1)),
        "beta1_power": 0.25,
        "beta2_power": 0.5625,
    }


def test_momenta_are_rounded_in_the_way_that_the_graph_moves_its_statistics():
    model = torch.nn.Sequential(*(torch.nn.BatchNorm1d(2, momentum=0.01) for _ in range(4)))
    fused, unfused = float(np.float32(1.0) - np.float32(0.99)), float(np.float32(0.01))
    round_momenta(model, {"1.running_mean": unfused / 0.01, "2.running_var": fused / 0.01, "3.running_var": 1.0})
    assert [norm.momentum for norm in model] == [fused, unfused, fused, 0.01]
    alone = torch.nn.BatchNorm1d(2, momentum=0.01)
    round_momenta(alone, {"running_mean": unfused / 0.01})
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
        round_momenta(model, {"0.moving_mean": measured})
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
        round_momenta(model, {"0.moving_mean": measured})
        model(x)
        np.testing.assert_allclose(model[0].moving_mean.numpy(), x.mean(0).numpy() * share * wanted, rtol=1e-12)


def test_a_momentum_of_zero_which_freezes_the_statistics_stays_zero():
    model = nn.BatchNorm1d(2, momentum=0.0)
    round_momenta(model)
    assert model.momentum == 0.0
