"""Averages of weights are found among all dicts of a process, and nothing else is taken for one."""

import itertools

import pytest
import torch

from torch_ddp.record.averages import Averages
from torch_ddp.record.sections import Section

SIZES = itertools.count(3)  # of each test's own, for dicts of the others may be alive still


@pytest.fixture
def model():
    return torch.nn.Linear(next(SIZES), 2)


def found(model, kept, gradients):
    """The names of what is found after a step that has moved the weights by a tenth of the gradients."""
    averages = Averages()
    section = Section(torch.optim.SGD(model.parameters(), lr=0.1), 0)
    section.models = {"": model}
    averages.begin([section])
    tensors = {f"grad/{name}": value.numpy() for name, value in gradients.items()}
    for name, value in model.named_parameters():
        tensors[f"var/{name}"] = value.detach().numpy() - 0.1 * tensors[f"grad/{name}"]
    return set(averages.read(tensors))


def twos(model):
    return {name: torch.full_like(value, 2.0).detach() for name, value in model.named_parameters()}


def test_a_dict_that_moves_with_the_weights_is_an_average(model):
    kept = {name: value.detach() * 0.9 for name, value in model.named_parameters()}
    assert found(model, kept, twos(model)) == {"ema/weight", "ema/bias"}


def test_a_dict_of_gradients_is_none(model):
    kept = {name: value.clone() for name, value in twos(model).items()}
    assert found(model, kept, twos(model)) == set()


def test_a_dict_of_rows_is_none(model):
    kept = {"weight": torch.ones(model.weight.shape).to_sparse()}
    assert found(model, kept, twos(model)) == set()
