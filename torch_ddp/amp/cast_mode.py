"""The torch function mode that casts, and what it sees through."""

import dis
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_lists import Rule
from torch_ddp.amp.cast_rules import Arguments, WeightCache, cast_arguments

# Each Python function of torch.nn.functional asks one of these first, whether a mode or a subclass is to take the
# call.
OVERRIDE_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
MODULES_SEEN_THROUGH = ("torch.nn.functional", "torch.functional")
METHODS_SEEN_THROUGH = ("Tensor.__rmatmul__",)
# They look at their outputs, a dozen calls that need no cast, and start the engine, which runs code of users.
BACKWARD = (Tensor.backward, torch.autograd.backward, torch.autograd.grad)
# What Python itself looks up in the globals of a function: builtins, and the names that relative imports need.
GLOBALS_ALWAYS_NEEDED = ("__builtins__", "__name__", "__package__", "__spec__")


class _Needs(NamedTuple):
    checks: dict[str, Callable[..., bool]]
    names: tuple[str, ...]


def without_own_check(function: Callable[..., Any]) -> FunctionType | None:
    """Returns the function without its question whether a mode is active, or None where that is not needed.

    A mode gets a function such as `multi_head_attention_forward` as a whole and calls it with itself switched off, so
    the products inside would not be cast. With the mode still on, the function
    would hand itself to the mode again, for ever. So it is rebuilt over the same code, with globals in which that
    question is answered no. It is rebuilt per call, hence never stale. `torch.overrides.redispatch_function` is meant
    for this, but torch 2.11 lacks it, and on 2.13 it never returns from methods that call `super()`.
    """
    if not isinstance(function, FunctionType):
        return None
    if function.__module__ not in MODULES_SEEN_THROUGH and function.__qualname__ not in METHODS_SEEN_THROUGH:
        return None
    needs = _needs(function)
    if needs is None:
        return None
    # Only the names that the code mentions, and not a copy of all globals in every call.
    outer = function.__globals__
    answers = {name: outer[name] for name in needs.names if name in outer} | needs.checks
    rebuilt = FunctionType(function.__code__, answers, function.__name__, function.__defaults__, function.__closure__)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    return rebuilt


@cache
def _needs(function: FunctionType) -> _Needs | None:
    names = set(_names(function.__code__))
    checks = {name: _no for name in OVERRIDE_CHECKS if name in names and name in function.__globals__}
    return _Needs(checks, (*GLOBALS_ALWAYS_NEEDED, *(names - set(checks)))) if checks else None


def _names(code: CodeType) -> Iterator[str]:
    for each in _codes(code):
        yield from each.co_names


def _codes(code: CodeType) -> Iterator[CodeType]:
    # Those of nested functions too, which are constants of the outer one: they share its globals.
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _no(*args: object) -> bool:
    return False


# Where a function of torch may find what its code names.
PLACES = (torch, torch.Tensor, torch._C._nn, torch._VF, torch.nn.functional, torch.functional)
# Operators leave no name in the code. Comparisons do not count: those of torch's functions look at their numbers.
OPERATORS = ("BINARY_", "INPLACE_")


def reaches_no_rule(function: FunctionType, table: Mapping[Callable[..., Any], Rule]) -> bool:
    """Returns whether nothing that a function of torch calls has a rule, so that it need not be seen through.

    Read from its code: every name in it is looked up wherever torch may find it, and torch's own Python functions among
    them are read in turn. Where that is not sure, as with operators on tensors, the answer is no.

    Args:
        function: of torch.nn.functional, for one.
        table: rules by function.
    """
    return _reaches_none(function, table, set())


def _reaches_none(function: FunctionType, table: Mapping[Callable[..., Any], Rule], read: set[FunctionType]) -> bool:
    if function in read:
        return True
    read.add(function)
    if any(
        step.opname.startswith(OPERATORS) for code in _codes(function.__code__) for step in dis.get_instructions(code)
    ):
        return False
    for name in set(_names(function.__code__)):
        for called in (function.__globals__.get(name), *(getattr(place, name, None) for place in PLACES)):
            if not callable(called) or isinstance(called, type):
                continue
            if called in table:
                return False
            inside = isinstance(called, FunctionType) and called.__module__ in MODULES_SEEN_THROUGH
            if inside and not _reaches_none(called, table, read):
                return False
    return True


HALF = Rule.HALF  # looked up once: a member of an enumeration takes as long as a call


class _Backward(threading.local):
    starting = False


class CastMode(TorchFunctionMode):
    """Casts the arguments of listed functions, the same on CPU and GPU.

    Attributes:
        table: rules by function.
        cache: of half weights.
        active: False makes it let everything through, on threads that still hold it.
    """

    def __init__(self, table: dict[Callable[..., Any], Rule], half: torch.dtype) -> None:
        super().__init__()
        self.table = table
        self.cache = WeightCache(half)
        self.active = True
        # Python functions of torch that are called as they are, as reading their code has shown.
        self._plain: dict[FunctionType, bool] = {}
        self._backward = _Backward()

    def arguments(self, rule: Rule, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Returns the arguments of one call as a rule wants them, weights from the cache.

        Args:
            rule: what to do.
            name: of the function, for messages.
            args: its positional arguments.
            kwargs: its keyword arguments.
        """
        if rule is Rule.HALF:
            for value in args:
                if isinstance(value, list):
                    self.cache.cast_together(value)
        return cast_arguments(rule, name, args, kwargs, self.cache.cast)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # torch has switched the mode off for the time of this call, so that the function called here is not cast a
        # second time.
        if not self.active:
            return func(*args, **(kwargs or {}))
        rule = self.table.get(func)
        if rule is HALF and not kwargs and not torch.compiler.is_compiling():
            return func(*self.cache.cast_all(args))
        if rule is not None:
            args, kwargs = self.arguments(rule, func.__name__, args, kwargs or {})
            return func(*args, **kwargs)
        # torch.compile cannot trace the rebuilding, and shows the mode the calls inside by itself.
        if (
            not isinstance(func, FunctionType)
            or torch.compiler.is_compiling()
            or self._plain.get(func)
            or self._is_plain(func)
        ):
            return func(*args, **(kwargs or {}))
        if func in BACKWARD:
            return self._start_backward(func, args, kwargs or {})
        inside = without_own_check(func)
        if inside is None:
            return func(*args, **(kwargs or {}))
        # Back on, so that calls inside arrive here; the rebuilt function does not hand itself over again.
        return self._switched_on(inside, *args, **(kwargs or {}))

    def _switched_on(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode_stack.on_top(self)
        try:
            return function(*args, **kwargs)
        finally:
            mode_stack.remove(self)

    def _start_backward(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before, self._backward.starting = self._backward.starting, True
        try:
            return function(*args, **kwargs)
        finally:
            self._backward.starting = before

    def run_engine(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs a backward pass, with the mode on where it would be but for the function that starts the pass.

        Args:
            run: what torch.autograd runs it by.
            *args: of that.
            **kwargs: of that.
        """
        if not self._backward.starting:
            return run(*args, **kwargs)
        # Passes that the engine's code starts on this thread find the mode on, and come by `_start_backward` themselves.
        self._backward.starting = False
        return self._switched_on(run, *args, **kwargs)

    def _is_plain(self, function: FunctionType) -> bool:
        # Rebuilding a function and switching the mode on and off costs as much as ten casts, and activations and dropout,
        # which call nothing with a rule, come often. Of torch's own functions alone, which do not go away.
        if function.__module__ not in MODULES_SEEN_THROUGH:
            return False
        if function not in self._plain:
            self._plain[function] = reaches_no_rule(function, self.table)
        return self._plain[function]


def handling(mode: CastMode, handle_torch_function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function like that of torch.overrides which hands calls to the mode in a quarter of the time.

    By it a Python function of torch.nn.functional hands its call to a mode. Torch's own first looks for arguments that
    override the function, which a `CastMode` does not want to know, and enters a generator around the call: of the 8 us
    that an activation takes under a mode, 6.

    Args:
        mode: that is handed its calls where it is on top.
        handle_torch_function: for calls that are another's.
    """

    def handle(function: Callable[..., Any], relevant: Any, /, *args: Any, **kwargs: Any) -> Any:
        if mode_stack.top() is not mode:
            return handle_torch_function(function, relevant, *args, **kwargs)
        mode_stack.remove(mode)
        try:
            return mode.__torch_function__(function, (), args, kwargs)
        finally:
            mode_stack.on_top(mode)

    return handle
