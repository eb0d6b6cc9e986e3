"""What a port makes without a dtype is of the run's precision, and modules that hold such tensors are known."""

from types import ModuleType

import pytest
import torch
from torch import nn

from torch_ddp.worker.precision import computing_in, hold_numbers


@pytest.mark.parametrize("trains_in", ["float32", "float64"])
def test_tensors_without_a_dtype_are_of_the_runs_precision_until_it_ends(trains_in):
    with computing_in("float64", trains_in):
        assert torch.tensor(0.1).item() == 0.1 and nn.Linear(2, 2).weight.dtype == torch.zeros(2).dtype == torch.float64
        # What is named float32 is that precision only where both sides train in it.
        assert torch.zeros(2).float().dtype == (torch.float64 if trains_in == "float32" else torch.float32)
        with computing_in("float32", trains_in):
            assert torch.tensor(0.1).item() != 0.1
        assert torch.get_default_dtype() == torch.float64
    with pytest.raises(ZeroDivisionError), computing_in("float64", trains_in):
        1 / 0  # noqa: B018
    assert torch.get_default_dtype() == torch.float32 and torch.zeros(2).float().dtype == torch.float32


class WithTable(nn.Module):
    table = torch.ones(3)


class WithCount(nn.Module):
    count = torch.ones(3, dtype=torch.long)


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (torch.tensor(0.1), True),
        ([torch.tensor(0.1), 3], True),
        ({"a": torch.tensor(0.1)}, True),
        (WithTable, True),
        (torch.arange(3), False),
        (WithCount, False),
        ([0.1], False),
        ({"a": 0.1}, False),
        (nn.Linear, False),
        (lambda: torch.tensor(0.1), False),
    ],
)
def test_modules_hold_numbers_that_are_tensors_of_floats(value, held):
    module = ModuleType("made")
    module.value = value
    for each in (WithTable, WithCount):
        each.__module__ = "made"
    assert hold_numbers([ModuleType("empty"), module]) is held


def test_a_class_that_is_imported_is_the_other_modules():
    module = ModuleType("made")
    module.value = type("Imported", (nn.Module,), {"table": torch.ones(3), "__module__": "elsewhere"})
    assert not hold_numbers([module])
