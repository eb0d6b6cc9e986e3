"""Watches the forward pass of a port: which function calls which, with which weights, and what comes out."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from parity.trace import LOSS, ForwardOp, LaidOut, Operand, SourceLine, UsersLines
from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_mode import OVERRIDE_CHECKS
from torch_ddp.step.fused_functions import Stages, stages_of

# What hands its input on as it is, but for its layout.
VALUE_KEEPING_FUNCTIONS = frozenset(
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
# Those of them that put numbers in other places, or give them other neighbours along an axis.
REARRANGING_FUNCTIONS = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "flatten",
        "unflatten",
        "t",
        "swapaxes",
        "movedim",
        "view_as",
        "reshape_as",
        "ravel",
        "adjoint",
        "__get__",
    ]
)
# Those that lay out or cast their first argument as the second is.
LIKE_ANOTHER = frozenset(["expand_as", "view_as", "reshape_as", "type_as"])
SHAPE_ONLY_FUNCTIONS = frozenset(
    [
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_tensor",
    ]
)
# What gives as many tensors as it takes, each of its own argument.
BROADCASTING_FUNCTIONS = frozenset(["broadcast_tensors", "meshgrid"])
RANDOM_FUNCTIONS = ("rand", "normal", "bernoulli", "multinomial", "dropout", "uniform", "exponential", "from_numpy")
# 32 MiB in float64.
MOST_KEPT_OF_AN_OPERAND = 1 << 22  # numbers in what is kept beside the outputs


class _Source(NamedTuple):
    # Where a tensor comes from: numbers of ops, names of weights, whether any of it is data, and how it was laid out since.
    numbers: tuple[int, ...]
    weights: frozenset[str]
    data: bool
    laid_out: LaidOut | None = None


class ForwardWatch(TorchFunctionMode):
    """Keeps what every torch function gives between a step's inputs and its backward pass.

    Args:
      model: the port, not wrapped.
      part: which of the step's backward passes it is that ends what is wanted, from 0: a micro-batch's number.
      gradients: whether in place of each output the gradient of what that backward pass begins at is kept; None of what
        needs none.
      detached: edges of the forward pass that no gradient passes, up to that backward pass: pairs of the number of an op, as
        counted here, and what it takes detached, the number of the op whose output it is or the name of a parameter.

    Attributes:
      passed: list of `ForwardOp` and output, as `write_forward` takes it.
    """

    def __init__(
        self,
        model: nn.Module,
        part: int = 0,
        gradients: bool = False,
        detached: Iterable[Sequence[int | str]] = (),
    ) -> None:
        super().__init__()
        self._detached = [(reader, source) for reader, source in detached]
        self._outputs: list[Tensor] | None = [] if gradients else None
        self.passed: list[tuple[ForwardOp, np.ndarray | None]] = []
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._path: list[tuple[str, str]] = []
        self._sources: dict[int, _Source] = {}
        self._alive: list[Tensor] = []  # an id is used again once its tensor is gone
        self._names = {id(each): name for name, each in [*model.named_parameters(), *model.named_buffers()]}
        self._copies: dict[tuple[int, int], np.ndarray] = {}
        self._parts_left = part
        self._ended = False
        self._users = UsersLines(torch)
        for name, parameter in model.named_parameters():
            self._sources[id(parameter)] = _Source((), frozenset([name]), False)
        for buffer in model.buffers():
            self._sources[id(buffer)] = _Source((), frozenset(), False)

    @contextlib.contextmanager
    def watching(self, nested: bool = True) -> Iterator[None]:
        """Watches until the block ends; where that is not `nested`, other modes may come and go across its borders."""
        hooks = [
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave, always_call=True),
        ]
        # Python functions of torch.nn.functional ask these whether to hand themselves over whole; told no, they run, and
        # the functions that they call are seen one by one.
        asking = {name: getattr(functional, name) for name in OVERRIDE_CHECKS if hasattr(functional, name)}
        try:
            for name in asking:
                setattr(functional, name, _no)
            with self if nested else _on_top(self):
                yield
        finally:
            for name, function in asking.items():
                setattr(functional, name, function)
            for hook in hooks:
                hook.remove()

    @property
    def ended(self) -> bool:
        """Whether the backward pass that ends what is wanted was seen to begin."""
        return self._ended

    def ends_at(self, output: Tensor) -> None:
        """Has what is kept end at an output in place of the loss: the op that gives it is the last, and marked alone."""
        numbers = self._source(output).numbers[-1:]
        if not numbers or numbers[0] >= len(self.passed):
            return  # of an earlier micro-batch, or of weights alone
        # Nothing behind it is of its pass: where no backward pass begins, all that an update does is.
        del self.passed[numbers[0] + 1 :]
        for number, (op, value) in enumerate(self.passed):
            kept = {name: each for name, each in op.attributes.items() if name != LOSS}
            marked = {LOSS: True} if number == numbers[0] else {}
            self.passed[number] = op._replace(attributes={**kept, **marked}), value

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function and keeps what it gives."""
        named = kwargs or {}
        # What runs from here on belongs to the next part: the graph of this one is complete, and gradients can be
        # taken.
        if func is Tensor.backward and not self._ended:
            self._end_of_part(args[0])
        if self._ended:
            return func(*args, **named)
        kind = str(getattr(func, "__name__", func))
        # Of what only gives its shape or dtype nothing is computed.
        own, by_name = (args[:1], {}) if kind in LIKE_ANOTHER else (args, named)
        taken = [self._source(tensor) for tensor in _tensors([*own, *by_name.values()])]
        stages = stages_of(func, kind, args, named)
        operands = (
            [] if kind in VALUE_KEEPING_FUNCTIONS else self._operands(own, by_name)
        )  # before some function changes them in place
        args, named = self._with_detached(kind, args, named, stages)
        result = func(*args, **named)
        # These give nothing new: their result is the tensor that they change.
        if kind in ("__setitem__", "copy_") and args and isinstance(args[0], Tensor):
            result_of = [args[0]]
        else:
            result_of = list(_tensors([result]))
        if kind in BROADCASTING_FUNCTIONS:
            self._take_each(result_of, list(_tensors(args)), operands)
        elif result_of:
            self._take(kind, _Call(args, named, operands), taken, result_of, stages)
        return result

    def _with_detached(self, kind: str, args: Any, named: dict[str, Any], stages: Stages) -> tuple[Any, dict[str, Any]]:
        # The numbers that this call is about to get: one for each stage, and one for the whole.
        first = len(self.passed)
        own = range(first, first + len(stages.before) + 1)
        sources = {source for reader, source in self._detached if reader in own}
        if not sources or kind in VALUE_KEEPING_FUNCTIONS:  # these get no number
            return args, named

        def detached(value: Tensor) -> Tensor:
            known = self._source(value)
            return value.detach() if sources & {*known.numbers, *known.weights} else value

        return tuple(tree_map_only(Tensor, detached, list(args))), tree_map_only(Tensor, detached, named)

    def _take(
        self,
        kind: str,
        call: "_Call",
        taken: list[_Source],
        results: list[Tensor],
        stages: Stages,
    ) -> None:
        # Invariant: an id in `_sources` belongs to a tensor that is alive, since `_alive` holds it.
        source = _joined(kind, taken)
        if kind in VALUE_KEEPING_FUNCTIONS and len(results) == 1 and taken:
            self._know(results[0], self._laid_out(kind, taken[0]))
            return
        # Weights alone, reshaped or cast: not an op of the pass, but known as that weight wherever it goes.
        if not source.data:
            for result in results:
                self._know(result, source)
            return
        operands, attributes = call.operands, _attributes(call.args, call.named)
        if stages.before:
            earlier: list[_Source] = []
            made: list[Operand] = []
            for stage in stages.before:
                own = _joined(stage.kind, [*earlier, *(self._source(each) for each in stage.takes)])
                self._add(stage.kind, own, stage.value, attributes, [*made, *self._operands(stage.takes, {})])
                earlier = [_Source((len(self.passed) - 1,), frozenset(), True)]
                made = [Operand("0", "", len(self.passed) - 1, list(stage.value.shape))]
            source = _joined(kind, [*earlier, *(self._source(each) for each in stages.takes)])
            operands = [*made, *self._operands(stages.takes, {})]
        for result in results:
            self._add(kind, source, result, attributes, operands)
            self._know(result, _Source((len(self.passed) - 1,), frozenset(), True))

    def _take_each(self, results: Sequence[Tensor], given: Sequence[Tensor], operands: Sequence[Operand]) -> None:
        """Keeps results of which each comes of one argument alone: a library's function makes their shapes the same."""
        for number, (result, tensor) in enumerate(zip(results, given, strict=True)):
            source = self._source(tensor)
            if not source.data or result.numel() == tensor.numel():
                self._know(result, source)
            else:
                taken = [each._replace(place="0") for each in operands[number : number + 1]]
                self._add("expand", source, result, {}, taken)
                self._know(result, _Source((len(self.passed) - 1,), frozenset(), True))

    def _laid_out(self, kind: str, source: _Source) -> _Source:
        if kind not in REARRANGING_FUNCTIONS or not source.data:
            return source
        return source._replace(laid_out=LaidOut(kind, self._path[-1][0] if self._path else "", self._line()))

    def _add(
        self, kind: str, source: _Source, value: Tensor, attributes: dict[str, Any], operands: Sequence[Operand]
    ) -> None:
        path, module = self._path[-1] if self._path else ("", "")
        described = {**attributes, "module": module} if module else attributes
        # A sparse matrix may be of any size; small ones are known as the dense matrix that they are.
        is_kept = value.layout is torch.strided or value.numel() <= MOST_KEPT_OF_AN_OPERAND
        kept = _array(value) if value.is_floating_point() and self._outputs is None and is_kept else None
        if self._outputs is not None:
            self._outputs.append(value)
        numbers, weights, line = sorted(source.numbers), sorted(source.weights), self._line()
        op = ForwardOp(path, kind, numbers, weights, list(value.shape), described, line, tuple(operands))
        self.passed.append((op, kept))

    def _operands(self, args: Sequence[Any], named: dict[str, Any]) -> list[Operand]:
        if self._outputs is not None:
            return []  # nothing is copied of a pass whose gradients are wanted
        placed = [(str(place), each) for place, each in enumerate(args)] + list(named.items())
        return [self._operand(place, tensor) for outer, each in placed for place, tensor in _placed(outer, each)]

    def _operand(self, place: str, tensor: Tensor) -> Operand:
        source, shape, name = self._source(tensor), list(tensor.shape), self._names.get(id(tensor), "")
        # Only where the operand is the output of one op: then it need not be copied, unless it was changed since.
        number = source.numbers[0] if source.data and len(source.numbers) == 1 and not source.weights else None
        number = number if number is not None and number < len(self.passed) else None  # else of a part before
        output = self.passed[number][1] if number is not None else None
        if tensor.numel() > MOST_KEPT_OF_AN_OPERAND and number is None:
            return Operand(place, name, None, shape, None, source.laid_out)
        # The version too: a tensor changed in place is another value under the same id.
        key = id(tensor), tensor._version
        if key not in self._copies:
            value = _array(tensor)
            if output is not None and output.size == value.size and np.array_equal(output.ravel(), value.ravel()):
                return Operand(place, name, number, shape, None, source.laid_out)
            self._alive.append(tensor)
            self._copies[key] = value
        return Operand(place, name, number, shape, self._copies[key], source.laid_out)

    def _line(self) -> SourceLine | None:
        return self._users.innermost(_frames())

    def _source(self, tensor: Tensor) -> _Source:
        return self._sources.get(id(tensor), _Source((), frozenset(), True))

    def _know(self, tensor: Tensor, source: _Source) -> None:
        if id(tensor) not in self._sources:
            self._alive.append(tensor)
        self._sources[id(tensor)] = source

    def _end_of_part(self, loss: Tensor) -> None:
        for number in [each for each in self._source(loss).numbers[-1:] if each < len(self.passed)]:
            op, value = self.passed[number]
            self.passed[number] = op._replace(attributes={**op.attributes, LOSS: True}), value
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
                # Not reached by the loss: a gradient of zero, of the shape and dtype of the output.
                gradient = torch.zeros_like(outputs[number]) if value is None else value
                self.passed[number] = self.passed[number][0], _array(gradient)

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        # Modules that the model does not list, made inside a forward pass, count as part of the one around them.
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


@contextlib.contextmanager
def _on_top(mode: TorchFunctionMode) -> Iterator[None]:
    mode_stack.on_top(mode)
    try:
        yield
    finally:
        mode_stack.remove(mode)


def _no(*arguments: Any) -> bool:
    return False


class _Call(NamedTuple):
    # How a function was called: its arguments by position and by name, and the tensors among them.
    args: Sequence[Any]
    named: dict[str, Any]
    operands: list[Operand]


def _joined(kind: str, taken: Iterable[_Source]) -> _Source:
    if kind in SHAPE_ONLY_FUNCTIONS:
        return _Source((), frozenset(), False)
    listed = list(taken)
    numbers = {number for each in listed for number in each.numbers}
    weights = frozenset().union(*[each.weights for each in listed]) if listed else frozenset()
    return _Source(
        tuple(sorted(numbers)), weights, any(each.data for each in listed) or kind.startswith(RANDOM_FUNCTIONS)
    )


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _placed(place: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _placed(f"{place}.{number}", each)


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
    held = held if held.layout is torch.strided else held.to_dense()
    held = held.float() if held.dtype is torch.bfloat16 else held
    return np.array(held.cpu().numpy(), order="C")
