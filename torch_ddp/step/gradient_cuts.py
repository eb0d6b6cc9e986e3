"""Shows where a port's own code keeps gradients from passing, and runs it as if it let them pass at some of these places."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from parity.trace import SourceLine, UsersLines

DETACHING = {Tensor.detach: "detach", Tensor.detach_: "detach", torch.detach: "detach", torch.detach_: "detach"}
READING_VALUES = {Tensor.data.__get__: "data", Tensor.item: "item"}  # type: ignore[attr-defined]
OF_A_TENSOR: dict[Any, str] = {**DETACHING, **READING_VALUES, torch.tensor: "tensor"}
LOOKING_UP = {
    each: inspect.signature(each, follow_wrapped=True) for each in (functional.embedding, functional.embedding_bag)
}
GRADIENT = inspect.signature(torch.autograd.grad)
OPERATORS_IN_PLACE = frozenset(
    ["__setitem__", "__set__", "__get__"]
    + [f"__i{each}__" for each in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")]
)
LEAVING_TORCH = frozenset([Tensor.numpy, Tensor.tolist, Tensor.__array__])


class GradientCuts(TorchFunctionMode):
    """Finds the calls of a port through which no gradient passes, though one could, and lets it pass at some of them.

    They are `detach` and `.data`, `item` and `torch.tensor` of a tensor, whatever is computed under `no_grad`, gradients
    that `torch.autograd.grad` makes without a graph of their own, and lookups in a table of which a row is padding. A place
    is one call in the port's source; under `no_grad` all calls of a function of the port's are one.

    Args:
      model: the port, not wrapped.
      undone: names of the places where gradients are let through.

    Attributes:
      found: dict of a place's name to what is known of it, JSON values: `kind`, `line` (a `SourceLine` without callers),
        `module` (path of the one whose method it is), `parameter` (name of what is cut off, "" where it is computed) and
        `calls`.
    """

    def __init__(self, model: nn.Module, undone: Collection[str] = ()) -> None:
        super().__init__()
        self.found: dict[str, dict[str, Any]] = {}
        self._undone = frozenset(undone)
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._users = UsersLines(torch)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until the block ends."""
        with self:
            yield

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function, or what it would be if gradients passed it."""
        named = kwargs or {}
        kind = _kind(func, args, named)
        # Only the port's own code is to blame: torch detaches within its own functions, DDP and optimizers do too.
        frame = next(self._frames(), None) if kind else None
        if frame is None:
            return func(*_for_numpy(func, args), **named)
        line = self._users.innermost([(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)])
        assert line is not None
        # A line may hold several calls: they are told apart by where they are in the code that it was compiled to.
        call = f"{line.file}:{line.function}" if kind == "no_grad" else f"{line.file}:{line.line}:{frame.f_lasti}"
        # Named by file and line, so that both ranks and later runs mean the same place.
        place = f"{kind} {call}"
        self._add(place, kind, line, args)
        return _passing(kind, func, args, named) if place in self._undone else func(*args, **named)

    def _add(self, place: str, kind: str, line: SourceLine, args: Any) -> None:
        parameter = next((self._names[id(each)] for each in _tensors(args) if id(each) in self._names), "")
        new = {"kind": kind, "line": list(line[:4]), "module": self._module(), "parameter": parameter, "calls": 0}
        self.found.setdefault(place, new)["calls"] += 1

    def _module(self) -> str:
        owners = (self._paths.get(id(frame.f_locals.get("self"))) for frame in self._frames())
        return next((path for path in owners if path is not None), "")

    def _frames(self) -> Iterator[FrameType]:
        """Yields the frames of the port's own code, innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._users.is_users(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back


def _kind(func: Any, args: Any, named: dict[str, Any]) -> str:
    """What keeps the gradient from passing a call; "" where it passes, or where there is none to pass."""
    # Where no gradient arrives none is cut off.
    if not any(each.requires_grad for each in _tensors([*args, *named.values()])):
        return ""
    if func in OF_A_TENSOR:
        return str(OF_A_TENSOR[func]) if args and isinstance(args[0], Tensor) else ""
    if func in LOOKING_UP and _padding(func, args, named) is not None:
        return "padding_idx"
    if func is torch.autograd.grad:
        return "" if GRADIENT.bind(*args, **named).arguments.get("create_graph") else "autograd.grad"
    return "" if torch.is_grad_enabled() or _in_place(func) else "no_grad"


def _passing(kind: str, func: Any, args: Any, named: dict[str, Any]) -> Any:
    if kind in ("detach", "data", "item"):
        return args[0]
    if kind == "tensor":
        # torch.tensor(x) makes a leaf of a copy; `to` keeps the graph.
        return args[0].to(named.get("dtype") or args[0].dtype)
    if kind == "autograd.grad":
        bound = GRADIENT.bind(*args, **named)
        bound.arguments["create_graph"] = True
        return func(*bound.args, **bound.kwargs)
    if kind == "padding_idx":
        bound = LOOKING_UP[func].bind(*args, **named)
        # Rows of padding get gradients like any other row, and the lookup is the same.
        bound.arguments["padding_idx"] = None
        return func(*bound.args, **bound.kwargs)
    with torch.enable_grad():
        return func(*args, **named)


def _padding(func: Any, args: Any, named: dict[str, Any]) -> Any:
    return LOOKING_UP[func].bind(*args, **named).arguments.get("padding_idx")


def _in_place(func: Callable[..., Any]) -> bool:
    name = str(getattr(func, "__name__", ""))
    # Of operators `__iadd__` and its like, and not `__getitem__`, though it ends so too.
    special = name.startswith("__")
    return name in OPERATORS_IN_PLACE if special else name.endswith("_")


def _for_numpy(func: Any, args: Any) -> Any:
    # What leaves torch has to be detached: it may no longer be so.
    return [args[0].detach(), *args[1:]] if func in LEAVING_TORCH and args[0].requires_grad else args


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
