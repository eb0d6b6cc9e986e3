"""Has a port that is written for float32 compute in the precision of a run: what it makes by itself as well."""

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from torch_ddp.record.widen import Widened

OWN = "torch_ddp"  # what computes as TensorFlow does, be it in float32


@contextlib.contextmanager
def computing_in(precision: str, trains_in: str) -> Iterator[None]:
    """Has what a port writes for the precision that it trains in be of a run's.

    That is what it creates without a dtype, first states and constants, and in a run in float64 of what trains in float32
    also what it casts to float32, or names that dtype for. A graph holds its constants in the dtype of the tower. A buffer
    of 0.1 that is made in float32 and widened is off by 1.5e-9, and ``x.float()`` by as much of x: a right port would
    differ in float64 by what float32 rounds in both programs alike, or by nothing at all.

    Args:
      precision: "float32" or "float64", of the run.
      trains_in: likewise, of both programs.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, precision))
    narrower = (precision, trains_in) == ("float64", "float32")
    try:
        with Widened(OWN) if narrower else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)


def hold_numbers(modules: Iterable[ModuleType]) -> bool:
    """Returns whether modules or their classes hold floating tensors, which were made when they were imported."""
    return any(_holds(value, module.__name__) for module in modules for value in list(vars(module).values()))


def _holds(value: Any, module: str) -> bool:
    # Only the port's own classes: torch's, which it imports, hold what torch needs.
    if inspect.isclass(value):
        return value.__module__ == module and any(map(_is_of_floats, vars(value).values()))
    return _is_of_floats(value)


def _is_of_floats(value: Any) -> bool:
    # One level deep: what lies deeper is left as it was made.
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    return any(isinstance(each, Tensor) and each.is_floating_point() for each in found)
