"""The torch function mode that casts, and what it sees through."""

from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_lists import Rule
from torch_ddp.amp.cast_rules import Arguments, WeightCache, cast_arguments

# Each Python function of torch.nn.functional asks one of these first, whether a mode or a subclass is to take the
# call.
OVERRIDE_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
MODULES_SEEN_THROUGH = ("torch.nn.functional", "torch.functional", "torch.autograd")
METHODS_SEEN_THROUGH = ("Tensor.backward", "Tensor.__rmatmul__")
# What Python itself looks up in the globals of a function: builtins, and the names that relative imports need.
GLOBALS_ALWAYS_NEEDED = ("__builtins__", "__name__", "__package__", "__spec__")


class _Needs(NamedTuple):
    checks: dict[str, Callable[..., bool]]
    names: tuple[str, ...]


def without_own_check(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the function without its question whether a mode is active, or None where that is not needed.

    A mode gets a function such as `multi_head_attention_forward` as a whole and calls it with itself switched off, so
    the products inside would not be cast, nor would code that `backward` runs. With the mode still on, the function
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
    # Of nested functions too, whose code objects are constants of the outer one: they share its globals.
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _no(*args: object) -> bool:
    return False


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
        kwargs = kwargs or {}
        # torch has switched the mode off for the time of this call, so that the function called here is not cast a
        # second time.
        rule = self.table.get(func) if self.active else None
        if rule is not None:
            args, kwargs = self.arguments(rule, func.__name__, args, kwargs)
            return func(*args, **kwargs)
        # torch.compile cannot trace the rebuilding, and shows the mode the calls inside by itself.
        if torch.compiler.is_compiling() or not self.active:
            return func(*args, **kwargs)
        inside = without_own_check(func)
        if inside is None:
            return func(*args, **kwargs)
        # Back on, so that calls inside arrive here; the rebuilt function does not hand itself over again.
        mode_stack.on_top(self)
        try:
            return inside(*args, **kwargs)
        finally:
            mode_stack.remove(self)
