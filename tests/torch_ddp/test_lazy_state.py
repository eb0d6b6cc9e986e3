"""State that an optimizer makes in its first step is there before it, and nothing else has changed."""

import pytest
import torch
from torch import nn

from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.optimizer import named_slots, set_counters


class Lazy(torch.optim.Optimizer):
    """Makes its state in the first step, as the optimizers of most repositories do."""

    def __init__(self, parameters, start=0.0, decay=0.0, cloned=False):
        super().__init__(parameters, {"lr": 0.1, "start": start, "decay": decay, "cloned": cloned, "steps": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["steps"] += 1
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad + group["decay"] * parameter
                state = self.state[parameter]
                if not state:
                    fresh = torch.full_like(parameter, group["start"])
                    state["velocity"] = gradient.clone() if group["cloned"] else fresh
                    state["step"] = 0
                state["step"] += 1
                state["velocity"].mul_(0.9).add_(gradient)
                parameter.sub_(group["lr"] * state["velocity"])


def made(**settings):
    model = nn.Linear(2, 1)
    return model, Lazy(model.parameters(), **settings)


@pytest.mark.parametrize(
    ("settings", "start"), [({}, 0.0), ({"start": 0.25}, 0.25), ({"cloned": True, "decay": 0.1}, 0.0)]
)
def test_the_state_starts_as_the_first_step_makes_it_before_it_updates_it(settings, start):
    model, optimizer = made(**settings)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    make_lazy_state(optimizer)
    slots = named_slots(optimizer, model)
    assert set(slots) == {("velocity", "weight"), ("velocity", "bias")}
    assert all((value == start).all() for value in slots.values())
    assert optimizer.param_groups[0]["steps"] == 0
    assert all(state["step"] == 0 for state in optimizer.state.values())
    assert all(torch.equal(value, before[name]) and value.grad is None for name, value in model.named_parameters())


def test_training_goes_on_as_without():
    results = []
    for early in (False, True):
        torch.manual_seed(0)
        model, optimizer = made(start=0.5, decay=0.01)
        if early:
            make_lazy_state(optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
        results.append([value.detach().clone() for value in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_hooks_are_not_called_and_stay():
    model, optimizer = made()
    called = []
    optimizer.register_step_post_hook(lambda *arguments: called.append(1))
    make_lazy_state(optimizer)
    assert called == []
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert called == [1]


@pytest.mark.parametrize("kind", ["none", "raises", "known"])
def test_an_optimizer_without_lazy_state_is_left_as_it_is(kind):
    model = nn.Linear(2, 1)
    if kind == "raises":
        optimizer = torch.optim.LBFGS(model.parameters())  # its step needs a closure
    else:
        optimizer = torch.optim.Adagrad(model.parameters()) if kind == "known" else torch.optim.SGD(model.parameters())
    before = {key: dict(value) for key, value in optimizer.state.items()}
    make_lazy_state(optimizer)
    assert {key: dict(value) for key, value in optimizer.state.items()} == before


def test_a_step_count_that_is_a_plain_number_is_overwritten_too():
    _, optimizer = made()
    make_lazy_state(optimizer)
    set_counters(optimizer, {"global_step": 7.0})
    assert [state["step"] for state in optimizer.state.values()] == [7, 7]
