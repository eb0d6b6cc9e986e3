"""Averages gradients over the ranks when told to."""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from torch_ddp.parallel.errors import ParallelError
from torch_ddp.parallel.flat import Scaling, all_reduce, broadcast_from_first, gradients


class Reducer:
    """Averages the gradients of a model over all ranks, each time `reduce` is called and only then.

    Args:
      module_or_grads_list: a model, whose parameters all ranks then take from rank 0; or tensors to average, in
        iterables nested in any way.

    Raises:
      ParallelError: neither a model nor tensors.

    Counterpart: apex.parallel.Reducer
    """

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, nn.Module) else None
        self.grads: list[Tensor] = []
        if self.module is not None:
            broadcast_from_first(self.module.parameters())
            return
        self.grads = _tensors(module_or_grads_list)
        if not self.grads:
            raise ParallelError(
                f"Reducer: expected a module or tensors, got {type(module_or_grads_list).__name__} without a tensor. "
                "Give the model, or its gradients after backward()."
            )

    def reduce(self) -> None:
        """Averages in place; every rank has to call it."""
        found = self.grads if self.module is None else gradients(list(self.module.parameters()))
        all_reduce(found, Scaling(average=False))
        for gradient in found:  # divided, where the wrapper multiplies by the reciprocal: so does Apex
            gradient.detach().div_(dist.get_world_size())


def _tensors(nested: Any) -> list[Tensor]:
    if isinstance(nested, Tensor):
        return [nested]
    if isinstance(nested, str) or not hasattr(nested, "__iter__"):
        return []
    return [tensor for part in nested for tensor in _tensors(part)]
