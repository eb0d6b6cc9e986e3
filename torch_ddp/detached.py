"""Runs a port as if it detached what some of its functions take."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from torch_ddp.forward import PASSING, ForwardWatch
from torch_ddp.fused import Stages


class DetachingWatch(ForwardWatch):
    """Keeps gradients from passing some edges of the forward pass, up to the first backward pass.

    Args:
      model: the port, not wrapped.
      edges: pairs of the number of an op, as `ForwardWatch` counts them, and what it takes detached: the number of the op
        whose output it is, or the name of a parameter.
    """

    def __init__(self, model: nn.Module, edges: Iterable[Sequence[int | str]]) -> None:
        super().__init__(model)
        self._edges = [(reader, source) for reader, source in edges]

    def _given(self, kind: str, args: Any, named: dict[str, Any], stages: Stages) -> tuple[Any, dict[str, Any]]:
        first = len(self.passed)
        own = range(first, first + len(stages.before) + 1)
        sources = {source for reader, source in self._edges if reader in own}
        if not sources or kind in PASSING:  # what only hands on has no number
            return args, named

        def detached(value: Tensor) -> Tensor:
            own = self._source(value)
            return value.detach() if sources & {*own.numbers, *own.weights} else value

        return tuple(tree_map_only(Tensor, detached, list(args))), tree_map_only(Tensor, detached, named)
