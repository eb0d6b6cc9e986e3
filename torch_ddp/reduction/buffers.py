"""Whose batch norm statistics survive, when every rank has moved its own."""

from typing import Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from torch_ddp.parallel.convert import convert_syncbn_model
from torch_ddp.parallel.errors import ParallelError

BufferPolicy = Literal["first", "mean", "sync"]


def prepare_buffers(model: nn.Module, policy: BufferPolicy) -> nn.Module:
    """Returns the model in the form that a policy needs, before it is wrapped.

    Args:
      model: not wrapped yet; "sync" changes it in place.
      policy: "first" and "mean" leave it alone; "sync" makes every batch norm a `SyncBatchNorm`.

    Raises:
      ParallelError: the policy is none of these, or a layer cannot be converted.
    """
    _check(policy)
    return convert_syncbn_model(model) if policy == "sync" else model


@torch.no_grad()
def settle_buffers(model: nn.Module, policy: BufferPolicy) -> None:
    """Makes the running statistics of all ranks the same; to be called before a checkpoint or an evaluation.

    torch's DDP sends rank 0's before each training forward, so that after the last one every rank is left with its own
    again; with "mean" under it, call this after every step, or it averages what little one step moved. Counts of batches
    are taken from rank 0. Other buffers are left alone.

    Args:
      model: wrapped or not.
      policy: "first" takes rank 0's, as towers do that update from the first tower only; "mean" averages means and variances
        over the ranks, which is not the variance of all examples together; "sync" takes rank 0's after checking that
        nothing has to be settled.

    Raises:
      ParallelError: the policy is none of these, or under "sync" the ranks differ.
    """
    _check(policy)
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _NormBase)]
    named = {f"{name}.{key}".lstrip("."): buffer for name, layer in layers for key, buffer in layer.named_buffers()}
    for name, buffer in named.items():
        everyones = _gathered(buffer)
        if policy == "sync" and any(not torch.equal(other, everyones[0]) for other in everyones):
            raise ParallelError(
                f"settle_buffers: expected the same {name} on all ranks, got different ones under the policy 'sync'. "
                "Convert the model with prepare_buffers before it is wrapped."
            )
        if policy == "mean" and buffer.is_floating_point():
            buffer.copy_(torch.stack(everyones).double().mean(0))
        else:
            buffer.copy_(everyones[0])


def _check(policy: str) -> None:
    if policy not in get_args(BufferPolicy):
        raise ParallelError(f"buffers: expected the policy 'first', 'mean' or 'sync', got {policy!r}. Choose one.")


def _gathered(buffer: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(buffer) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, buffer)
    return parts
