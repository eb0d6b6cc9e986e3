"""Has a training program compute in float64 where it is written for float32, and names what stays narrower."""

import functools
import sys
import traceback
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

WIDE, NARROW = torch.float64, torch.float32
HALVES = (torch.float16, torch.bfloat16)
# Reading how a tensor lies computes nothing, and is asked for very often. A view by a dtype reads bits, which another
# dtype has not.
READ_ONLY = frozenset(
    ["__get__", "size", "dim", "stride", "is_contiguous", "numel", "is_floating_point", "is_complex", "view"]
)
LIBRARY_FOLDERS = ("/torch/", "/torch_ddp/")


class Widened(TorchFunctionMode):
    """Reads float32 as float64 in every torch function: dtypes that are named, casts, and tensors that go in or come out.

    Half precision stays what it is: a program that casts to it does not compute in float64, and where it does is kept.

    Args:
      but_for: packages that mean float32 where they name it: what they call themselves is left as it is.

    Attributes:
      narrow: dict of what computes in less than float64, in words, to the place in the program.
    """

    def __init__(self, *but_for: str) -> None:
        super().__init__()
        self.narrow: dict[str, str] = {}
        self._but_for = tuple(f"{package}." for package in but_for)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function with what is float32 in float64, and makes that of what it returns."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in READ_ONLY or (self._but_for and self._is_left()):
            return func(*args, **kwargs)
        self._note(name, args, kwargs)
        # Named by the method and not by a dtype, which `_widened` would see.
        if func is Tensor.float:
            func = Tensor.double
        # What is written into stays the tensor that it is: a wider copy of it would take the numbers instead.
        written = args[:1] if _writes(name) else ()
        wide = tree_map(_widened, args[len(written) :])
        named = {key: value if key == "out" else tree_map(_widened, value) for key, value in kwargs.items()}
        result = func(*written, *wide, **named)
        return result if written else tree_map(_widened, result)

    def _is_left(self) -> bool:
        # Frame 0 is this method, 1 the mode's, 2 whatever calls the function.
        return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(self._but_for)

    def note(self, what: str) -> None:
        """Keeps that something computes in less than float64 where the program now is."""
        self.narrow.setdefault(what, place_in_program())

    def _note(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        if name in ("half", "bfloat16"):
            self.note(name)
        # By identity: comparing a tensor with a dtype is itself a torch function.
        asked = [each for each in (*args, *kwargs.values()) if any(each is half for half in HALVES)]
        if asked and (name in ("to", "_parse_to", "type") or "dtype" in kwargs):
            self.note(str(asked[0]).removeprefix("torch."))


def widen_program() -> Widened:
    """Has everything that this process computes from here on with torch be in float64; returns what it notes."""
    mode = Widened()
    torch.set_default_dtype(WIDE)
    torch.set_default_dtype = _taking_wide(torch.set_default_dtype)
    torch.from_numpy = _giving_wide(torch.from_numpy)  # no torch function: a mode does not see it
    _widen_before(DistributedDataParallel)
    _note_entering(mode, torch.autocast)
    # Never left: it ends with the process.
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


def widen_module(module: nn.Module) -> None:
    """Widens parameters and buffers in place, those that were made of float32 numbers outside of torch functions too."""
    # Else the mode itself would be asked for each read and cast. `data` is set: the tensor stays the one that others
    # hold.
    with torch._C.DisableTorchFunction():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.dtype is NARROW:
                tensor.data = tensor.data.to(WIDE)


def place_in_program() -> str:
    """Returns file and line of the innermost frame that is neither torch's nor ours, "" where there is none."""
    for frame in reversed(traceback.extract_stack()):
        if not any(folder in frame.filename for folder in LIBRARY_FOLDERS) and not frame.filename.startswith("<"):
            return f"{frame.filename.rpartition('/')[2]}, line {frame.lineno}"
    return ""


def _writes(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__")) or name in ("__setitem__", "__set__")


def _widened(value: Any) -> Any:
    if value is NARROW:
        return WIDE
    # A parameter stays itself, for the optimizer holds it: `widen_module` has made it wide in place.
    if type(value) is Tensor and value.dtype is NARROW:
        return value.to(WIDE)
    return value


def _taking_wide(function: Any) -> Any:
    @functools.wraps(function)
    def called(dtype: torch.dtype) -> None:
        function(_widened(dtype))

    return called


def _giving_wide(function: Any) -> Any:
    @functools.wraps(function)
    def called(array: Any) -> Tensor:
        wide: Tensor = _widened(function(array))
        return wide

    return called


def _widen_before(wrapper: Any) -> None:
    plain = wrapper.__init__

    @functools.wraps(plain)
    def wrap(self: Any, module: nn.Module, *arguments: Any, **options: Any) -> None:
        # Buckets are made of the dtypes that the parameters have now.
        widen_module(module)
        plain(self, module, *arguments, **options)

    wrapper.__init__ = wrap


def _note_entering(mode: Widened, context: Any) -> None:
    plain = context.__enter__

    @functools.wraps(plain)
    def enter(self: Any) -> Any:
        # Autocast leaves float64 alone: what is widened computes as if it were not there.
        if getattr(self, "_enabled", True):
            mode.note("autocast")
        return plain(self)

    context.__enter__ = enter
