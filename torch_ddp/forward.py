"""Watches the forward pass of a port: which function calls which, with which weights, and what comes out."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from parity.trace import ForwardOp, SourceLine, UsersLines
from torch_ddp.fused import Stages, stages_of

# What hands its input on as it is, but for its layout.
PASSING = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "contiguous",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "detach",
        "clone",
        "to",
        "t",
        "swapaxes",
        "movedim",
        "view_as",
        "reshape_as",
        "double",
        "float",
        "cpu",
        "requires_grad_",
        "__get__",
        "ravel",
        "adjoint",
        "detach_",
        "unsqueeze_",
        "squeeze_",
        "type_as",
    ]
)
SHAPES = frozenset(
    ["zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones", "new_full", "full_like", "new_empty"]
)
DRAWING = ("rand", "normal", "bernoulli", "multinomial", "dropout", "uniform", "exponential", "from_numpy")
# Python functions of torch.nn.functional ask these whether to be handed over whole; told no, they run part by part.
ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class _Source(NamedTuple):
    # Where a tensor comes from: numbers of ops, names of weights, and whether any of it is data.
    numbers: tuple[int, ...]
    weights: frozenset[str]
    data: bool


class ForwardWatch(TorchFunctionMode):
    """Keeps what every torch function gives between a step's inputs and its backward pass.

    Args:
      model: the port, not wrapped.
      part: which of the step's backward passes it is that ends what is wanted, from 0: a micro-batch's number.
      gradients: whether in place of each output the gradient of what that backward pass begins at is kept; None of what
        needs none.

    Attributes:
      passed: list of `ForwardOp` and output, as `write_forward` takes it.
    """

    def __init__(self, model: nn.Module, part: int = 0, gradients: bool = False) -> None:
        super().__init__()
        self._outputs: list[Tensor] | None = [] if gradients else None
        self.passed: list[tuple[ForwardOp, np.ndarray | None]] = []
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._path: list[tuple[str, str]] = []
        self._sources: dict[int, _Source] = {}
        self._alive: list[Tensor] = []  # an id is used again once its tensor is gone
        self._parts_left = part
        self._ended = False
        self._users = UsersLines(torch)
        for name, parameter in model.named_parameters():
            self._sources[id(parameter)] = _Source((), frozenset([name]), False)
        for buffer in model.buffers():
            self._sources[id(buffer)] = _Source((), frozenset(), False)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until the block ends."""
        hooks = [
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave, always_call=True),
        ]
        asking = {name: getattr(functional, name) for name in ASKING if hasattr(functional, name)}
        try:
            for name in asking:
                setattr(functional, name, _no)
            with self:
                yield
        finally:
            for name, function in asking.items():
                setattr(functional, name, function)
            for hook in hooks:
                hook.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function and keeps what it gives."""
        named = kwargs or {}
        if func is Tensor.backward and not self._ended:
            self._end_of_part(args[0])
        if self._ended:
            return func(*args, **named)
        kind = str(getattr(func, "__name__", func))
        taken = [self._source(tensor) for tensor in _tensors([*args, *named.values()])]
        stages = stages_of(func, kind, args, named)
        args, named = self._given(kind, args, named, stages)
        result = func(*args, **named)
        if kind in ("__setitem__", "copy_") and args and isinstance(args[0], Tensor):
            result_of = [args[0]]
        else:
            result_of = list(_tensors([result]))
        if result_of:
            self._take(kind, args, named, taken, result_of, stages)
        return result

    def _given(self, kind: str, args: Any, named: dict[str, Any], stages: Stages) -> tuple[Any, dict[str, Any]]:
        """Returns the arguments that a function is called with, of what kind it is and what parts it consists of."""
        return args, named

    def _take(
        self,
        kind: str,
        args: Any,
        named: Any,
        taken: list[_Source],
        results: list[Tensor],
        stages: Stages,
    ) -> None:
        source = _joined(kind, taken)
        if kind in PASSING and len(results) == 1 and taken:
            self._know(results[0], taken[0])
            return
        if not source.data:
            for result in results:
                self._know(result, source)
            return
        if stages.before:
            earlier: list[_Source] = []
            for stage in stages.before:
                own = _joined(stage.kind, [*earlier, *(self._source(each) for each in stage.takes)])
                self._add(stage.kind, own, stage.value, {})
                earlier = [_Source((len(self.passed) - 1,), frozenset(), True)]
            source = _joined(kind, [*earlier, *(self._source(each) for each in stages.takes)])
        for result in results:
            self._add(kind, source, result, _attributes(args, named))
            self._know(result, _Source((len(self.passed) - 1,), frozenset(), True))

    def _add(self, kind: str, source: _Source, value: Tensor, attributes: dict[str, Any]) -> None:
        path, module = self._path[-1] if self._path else ("", "")
        described = {**attributes, "module": module} if module else attributes
        kept = _array(value) if value.is_floating_point() and self._outputs is None else None
        if self._outputs is not None:
            self._outputs.append(value)
        op = ForwardOp(
            path, kind, sorted(source.numbers), sorted(source.weights), list(value.shape), described, self._line()
        )
        self.passed.append((op, kept))

    def _line(self) -> SourceLine | None:
        return self._users.innermost(_frames())

    def _source(self, tensor: Tensor) -> _Source:
        return self._sources.get(id(tensor), _Source((), frozenset(), True))

    def _know(self, tensor: Tensor, source: _Source) -> None:
        if id(tensor) not in self._sources:
            self._alive.append(tensor)
        self._sources[id(tensor)] = source

    def _end_of_part(self, loss: Tensor) -> None:
        self._ended = not self._parts_left
        self._parts_left -= 1
        if not self._ended:
            self.passed.clear()
        elif self._outputs is not None:
            self._take_gradients(loss, self._outputs)
        if self._outputs:
            self._outputs.clear()

    def _take_gradients(self, loss: Tensor, outputs: list[Tensor]) -> None:
        # Of what was changed in place only the last is still the tensor that it was.
        last = {id(value): number for number, value in enumerate(outputs) if value.requires_grad}
        wanted = [outputs[number] for number in last.values()]
        if loss.requires_grad and wanted:
            found = torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)
            for number, value in zip(last.values(), found, strict=True):
                gradient = torch.zeros_like(outputs[number]) if value is None else value
                self.passed[number] = self.passed[number][0], _array(gradient)

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        path = self._paths.get(id(module), self._path[-1][0] if self._path else "")
        self._path.append((path, type(module).__name__))

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._path:
            self._path.pop()


def _frames() -> Iterator[tuple[str, int, str]]:
    frame = sys._getframe()
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]


def _no(*arguments: Any) -> bool:
    return False


def _joined(kind: str, taken: Iterable[_Source]) -> _Source:
    if kind in SHAPES:
        return _Source((), frozenset(), False)
    listed = list(taken)
    numbers = {number for each in listed for number in each.numbers}
    weights = frozenset().union(*[each.weights for each in listed]) if listed else frozenset()
    return _Source(tuple(sorted(numbers)), weights, any(each.data for each in listed) or kind.startswith(DRAWING))


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _attributes(args: Any, named: Any) -> dict[str, Any]:
    found = {str(place): value for place, value in enumerate(args)}
    found.update(named)
    return {name: value for name, value in found.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(each, bool | int | float | str) for each in value)
    return isinstance(value, bool | int | float | str) and value == value and value not in (float("inf"), -float("inf"))


def _array(tensor: Tensor) -> np.ndarray:
    held = tensor.detach()
    held = held.float() if held.dtype is torch.bfloat16 else held
    return np.array(held.cpu().numpy(), order="C")
