"""Shows in full precision what a narrower type's rounding would do: random roundings of products and of their gradients."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from torch_ddp.amp.cast_lists import Rule, rules


class RoundingNoise(TorchFunctionMode):
    """Moves what products and convolutions return, and the gradients that come back to them, by a unit roundoff.

    The functions are those that Apex's O1 runs in half precision. A sum of many gradients that cancel, as that of a bias in
    front of a batch norm, then shows what the rounding of its terms leaves of it, which no change of weights can show.

    Args:
      unit: the unit roundoff, relative, e.g. 2^-11 of float16.
      seed: of the draw; another one for each rank.
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)
        self._functions = {function for function, rule in rules().items() if rule is Rule.HALF}

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the function and moves what it returns."""
        returned = func(*args, **(kwargs or {}))
        if func not in self._functions:
            return returned
        return tree_map_only(Tensor, self._moved, returned)

    def rounded(self, value: Tensor) -> Tensor:
        """Returns a tensor with every element moved by the unit roundoff, up or down at random."""
        # 0 or 1 per element, int8 and on the CPU, so that devices draw alike: value * (1 + unit) or value * (1 -
        # unit).
        signs = torch.randint(0, 2, value.shape, generator=self._generator, dtype=torch.int8).to(value)
        return value * (1 + self._unit * (2 * signs - 1))

    def _moved(self, value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        moved: Tensor = _Moved.apply(value, self)  # type: ignore[no-untyped-call]
        return moved


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor, noise: RoundingNoise) -> Tensor:
        context.noise = noise
        return noise.rounded(value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.noise.rounded(gradient), None
