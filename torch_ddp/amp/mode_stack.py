"""The calling thread's stack of torch function modes, with one mode kept at its bottom.

`TorchFunctionMode.__exit__` pops whatever is on top. A mode that stays on beyond the block in which it was switched on
must therefore lie below every mode that comes and goes. Only the mode of `torch.set_default_device` expects to be the
very lowest, so ours lies just above it.
"""

import torch
from torch._C import (  # no public form; torch/utils/_device.py orders its stack with these
    _get_function_stack_at,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.overrides import TorchFunctionMode


def holds(mode: TorchFunctionMode) -> bool:
    """Returns whether the mode is on for this thread."""
    stack = _emptied()
    _refilled(stack)
    return any(one is mode for one in stack)


def insert(mode: TorchFunctionMode) -> None:
    """Switches the mode on for this thread, below all others except the default device's; twice is once."""
    if not _len_torch_function_stack():
        _push_on_torch_function_stack(mode)
        return
    stack = _emptied()
    if not any(one is mode for one in stack):
        default_device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
        # torch._GLOBAL_DEVICE_CONTEXT is a threading.local: without a default device it has no such attribute.
        stack.insert(1 if stack and stack[0] is default_device else 0, mode)
    _refilled(stack)


def remove(mode: TorchFunctionMode) -> bool:
    """Switches the mode off for this thread, wherever it lies; returns whether it was on."""
    if not _len_torch_function_stack():
        return False
    # The stack is in C++, and popping and pushing is all that it offers.
    top = _pop_torch_function_stack()
    if top is mode:  # nearly always, and this runs for every call seen through
        return True
    _push_on_torch_function_stack(top)
    stack = _emptied()
    others = [one for one in stack if one is not mode]
    _refilled(others)
    return len(others) < len(stack)


def on_top(mode: TorchFunctionMode) -> None:
    """Puts the mode on top for this thread, for the time until `remove`."""
    _push_on_torch_function_stack(mode)


def top() -> TorchFunctionMode | None:
    """Returns the mode on top for this thread, None where there is none."""
    depth = _len_torch_function_stack()
    return _get_function_stack_at(depth - 1) if depth else None


def _emptied() -> list[TorchFunctionMode]:
    return [_pop_torch_function_stack() for _ in range(_len_torch_function_stack())][::-1]


def _refilled(stack: list[TorchFunctionMode]) -> None:
    for mode in stack:
        _push_on_torch_function_stack(mode)
