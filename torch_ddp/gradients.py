"""Combines the ranks' gradients: the mean that DDP takes, or the sum that many towers took."""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError

Reduction = Literal["mean", "sum"]


class GradientReduction:
    """Reduces DDP's buckets by mean or sum, and keeps each rank's own gradients if asked to.

    DDP itself can only average. As a communication hook it averages exactly as DDP does by itself (divide, then sum), so
    that attaching it changes nothing but what is kept.

    Args:
      model: the wrapped model; the hook is attached to it.
      reduce: "mean" or "sum" over the ranks.

    Attributes:
      keep: whether to keep this rank's gradients of the next backward pass in `local`.
      local: dict of parameter name to this rank's own gradient, before the all-reduce.

    Raises:
      TorchDdpError: `reduce` is neither.

    Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
    Counterpart: tf_towers.combine_gradients
    """

    def __init__(self, model: DistributedDataParallel, reduce: Reduction = "mean") -> None:
        if reduce not in ("mean", "sum"):
            raise TorchDdpError(f"gradients: expected reduce to be 'mean' or 'sum', got {reduce!r}.")
        self.reduce = reduce
        self.keep = False
        self.local: dict[str, Tensor] = {}
        self._names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        model.register_comm_hook(None, self._hook)

    def _hook(self, state: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        if self.keep:
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
                self.local[self._names[id(parameter)]] = gradient.detach().clone()
        flat = bucket.buffer()
        if self.reduce == "mean":
            flat.div_(dist.get_world_size())
        return dist.all_reduce(flat, async_op=True).get_future().then(lambda done: done.value()[0])


def unreduced(model: nn.Module) -> list[str]:
    """Returns the parameters that the last backward pass gave no gradient."""
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None]
