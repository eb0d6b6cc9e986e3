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


def test_what_an_optimizer_fills_its_slots_with_is_rounded_as_the_graph_holds_it():
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = torch.optim.Adagrad([weight], lr=0.5, initial_accumulator_value=0.1)
    assert optimizer.state[weight]["sum"].tolist() == [0.1] * 3
    round_hyper_parameters(optimizer)
    assert optimizer.state[weight]["sum"].tolist() == [float(np.float32(0.1))] * 3
    # What was computed is no number that anybody wrote.
    weight.grad = torch.tensor([0.3, 0.7, 0.1], dtype=torch.float64)
    optimizer.step()
    computed = optimizer.state[weight]["sum"].tolist()
    round_hyper_parameters(optimizer)
    assert optimizer.state[weight]["sum"].tolist() == computed
