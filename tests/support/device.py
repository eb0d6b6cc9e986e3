"""Tests of torch_ddp on a GPU: `PARITY_TEST_DEVICE=cuda python -m pytest tests/torch_ddp` has what tests make live there.

Tensors that a test makes without naming a device, and arrays that it turns into tensors, are on the device, with the numbers
that they have on the CPU; arrays that it takes of tensors come back. Code under test gets no help: what mixes devices or
takes numpy arrays of tensors on a GPU fails. Without the variable nothing here does anything.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DEVICE = os.environ.get("PARITY_TEST_DEVICE", "cpu")
TESTS = Path(__file__).parents[1]
NUMPY = Path(np.__file__).parent
# Whole programs and processes that say themselves on which device they are; what of them runs on a GPU has tests of its own.
OWN_DEVICE = ("record", "launch", "train_ddp", "evaluation", "apex_tests")
_is_there = False


def on_device() -> bool:
    """Returns whether what tests make is on a GPU."""
    return DEVICE != "cpu"


def put_tensors_there() -> None:
    """Has this process make tensors on the device; ranks that tests start call it first of all.

    Raises:
      ValueError: a device that this knows nothing of.
      RuntimeError: no CUDA GPU is here.
    """
    global _is_there
    if not on_device() or _is_there:
        return
    if DEVICE != "cuda":
        raise ValueError(f"tests: expected PARITY_TEST_DEVICE to be cpu or cuda, got {DEVICE!r}.")
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("tests: expected a CUDA GPU for PARITY_TEST_DEVICE=cuda, got none. Unset it.")
    # The default device of torch is a mode of functions, which stands in the way of tests of such modes; this is none.
    torch._C._set_default_tensor_type(torch.cuda.FloatTensor)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for name in ("from_numpy", "as_tensor"):
        setattr(torch, name, _moved(getattr(torch, name)))
    for name in ("numpy", "__array__"):
        setattr(torch.Tensor, name, _moved_back(getattr(torch.Tensor, name)))

    for name in ("rand", "randn", "randint", "randperm", "normal"):
        setattr(torch, name, _drawn(getattr(torch, name)))
    for name in ("uniform_", "normal_"):
        setattr(torch.Tensor, name, _filled(getattr(torch.Tensor, name)))
    _is_there = True


def _in_tests() -> bool:
    # numpy's own functions, which a test gives a tensor, take an array of it for that test.
    frame = sys._getframe(2)
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(NUMPY):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).is_relative_to(TESTS)


def _moved(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def there(*arguments: Any, **options: Any) -> Any:
        tensor = function(*arguments, **options)
        return tensor.to(DEVICE) if _in_tests() and "device" not in options else tensor

    return there


def _moved_back(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def back(self: Any, *arguments: Any, **options: Any) -> Any:
        return method(self.cpu() if _in_tests() else self, *arguments, **options)

    return back


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Draws what a test draws on the CPU: the same numbers on every device."""

    @functools.wraps(function)
    def drawn(*arguments: Any, **options: Any) -> Any:
        if not _in_tests() or "device" in options:
            return function(*arguments, **options)
        leaf = options.pop("requires_grad", False)
        return function(*arguments, device="cpu", **options).to(DEVICE).requires_grad_(leaf)

    return drawn


def _filled(method: Callable[..., Any]) -> Callable[..., Any]:
    """Fills initial weights with the CPU's draws."""

    @functools.wraps(method)
    def filled(self: Any, *arguments: Any, **options: Any) -> Any:
        if not self.is_cuda:
            return method(self, *arguments, **options)
        return self.copy_(method(self.detach().cpu(), *arguments, **options))

    return filled


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "on_cpu(reason): what it shows is there on the CPU alone")
    put_tensors_there()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not on_device():
        return
    for item in items:
        if marker := item.get_closest_marker("on_cpu"):
            item.add_marker(pytest.mark.skip(reason=f"on the CPU alone: {marker.args[0]}"))
        elif "torch_ddp" not in item.path.parts or set(OWN_DEVICE) & set(item.path.parts):
            item.add_marker(pytest.mark.skip(reason="says itself where it runs: unset PARITY_TEST_DEVICE to enable it"))
