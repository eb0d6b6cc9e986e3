"""Which parameters of a program's models tell their gradients, and how often, without a recording."""

from types import SimpleNamespace

import pytest
import torch

from torch_ddp.record import recorder as recorder_module
from torch_ddp.record.recorder import Recorder


@pytest.fixture
def told(monkeypatch):
    """Returns a recorder of which only the hooks are used, and the list of what they tell."""
    taken = []
    recorder = Recorder(SimpleNamespace(skip=0, steps=None), SimpleNamespace())
    monkeypatch.setattr(recorder, "gradient", lambda key, gradient: taken.append((key, gradient.tolist())))
    return recorder, taken


def hook(recorder, **weights):
    recorder._hook_parameters(SimpleNamespace(weights=lambda: weights))


def test_a_trained_parameter_tells_the_gradient_of_each_pass_once(told):
    recorder, taken = told
    weight, frozen = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    computed = weight * 2
    for _ in range(2):  # as before each backward pass
        hook(recorder, weight=weight, frozen=frozen, computed=computed)
    for scale in (1.0, 3.0):
        (weight * frozen * scale).sum().backward()
    assert taken == [(id(weight), [1.0, 1.0]), (id(weight), [3.0, 3.0])], "each pass alone, not what adds up in grad"
    computed.sum().backward()
    assert [key for key, _ in taken] == [id(weight)] * 3, "what is computed of a weight is none"


def test_a_parameter_that_is_unfrozen_tells_its_gradients_from_then_on(told):
    recorder, taken = told
    weight = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    hook(recorder, weight=weight)
    weight.requires_grad_(True)
    weight.sum().backward()
    assert taken == []
    hook(recorder, weight=weight)
    weight.sum().backward()
    assert taken == [(id(weight), [1.0])]


def test_a_gradient_is_kept_as_a_copy_and_only_within_a_recorded_step():
    recorder = Recorder(SimpleNamespace(skip=1, steps=None), SimpleNamespace())
    gradient = torch.ones(2)
    recorder.gradient(7, gradient)  # before any step: nothing to keep it in
    for number, kept in ((0, False), (1, True)):
        recorder._step = recorder_module.Step(number)
        recorder.gradient(7, gradient)
        assert (7 in recorder._step.current().gradients) is kept
    gradient.zero_()
    assert recorder._step.current().gradients[7].tolist() == [1.0, 1.0]
