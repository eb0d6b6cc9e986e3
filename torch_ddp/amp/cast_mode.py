"""The torch function mode that casts arguments by the cast lists."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_lists import Rule
from torch_ddp.amp.cast_rules import Arguments, cast_arguments
from torch_ddp.amp.see_through import without_own_check
from torch_ddp.amp.weight_cache import WeightCache


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
        return cast_arguments(rule, name, args, kwargs, self.cache.cast)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
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
        mode_stack.on_top(self)
        try:
            return inside(*args, **kwargs)
        finally:
            mode_stack.remove(self)
