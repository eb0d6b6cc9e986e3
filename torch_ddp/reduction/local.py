"""What a rank does to gradients and buffers itself: accumulates, clips by TensorFlow's rule, keeps batch norm's buffers."""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.like_tf import clip_by_norm, clip_grads_by_global_norm_
from torch_ddp.parallel.errors import ParallelError
from torch_ddp.parallel.sync_batchnorm import convert_syncbn_model


@torch.no_grad()
def clip_by_global_norm_(model: nn.Module, clip_norm: float, loss_scale: float = 1.0) -> Tensor:
    """Divides a model's reduced gradients by the loss scale and clips them all by their common norm, in place.

    Args:
      model: after backward, wrapped or not; every rank gets the same.
      clip_norm: largest norm; positive.
      loss_scale: what the loss was multiplied by, and is not divided by yet; 1 after `GradScaler.unscale_`.

    Returns:
      The norm before clipping, shape []; not finite after an overflow, which makes every gradient NaN.

    Raises:
      ParallelError: the gradients are not reduced yet, or a number is not positive.
      LikeTfError: there is no gradient.

    Counterpart: tf.compat.v1.clip_by_global_norm
    """
    _check("clip_by_global_norm_", model, clip_norm, loss_scale)
    _unscale(model, loss_scale)
    return clip_grads_by_global_norm_(model.parameters(), clip_norm)


@torch.no_grad()
def clip_by_norm_(model: nn.Module, clip_norm: float, loss_scale: float = 1.0) -> None:
    """Divides a model's reduced gradients by the loss scale and clips each variable's by its own norm, in place.

    Args:
      model: after backward, wrapped or not; every rank gets the same.
      clip_norm: largest norm; positive.
      loss_scale: what the loss was multiplied by, and is not divided by yet; 1 after `GradScaler.unscale_`.

    Raises:
      ParallelError: the gradients are not reduced yet, one is sparse, or a number is not positive.

    Counterpart: tf.compat.v1.clip_by_norm
    """
    _check("clip_by_norm_", model, clip_norm, loss_scale)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.grad.layout is not torch.strided:
            raise ParallelError(
                f"clip_by_norm_: expected dense gradients, got a sparse one of {name}. Use Embedding(sparse=False)."
            )
    _unscale(model, loss_scale)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(clip_by_norm(parameter.grad, clip_norm))


def _check(who: str, model: nn.Module, clip_norm: float, loss_scale: float) -> None:
    # Inside no_sync gradients are this rank's own: each rank would clip by another norm, and the ranks part.
    if not getattr(model, "require_backward_grad_sync", True):
        raise ParallelError(
            f"{who}: expected reduced gradients, got this rank's own, inside no_sync. Clip after the last micro-batch."
        )
    for name, number in (("clip_norm", clip_norm), ("loss_scale", loss_scale)):
        if not number > 0:
            raise ParallelError(f"{who}: expected a positive {name}, got {number}. Leave out the clipping instead.")


def _unscale(model: nn.Module, loss_scale: float) -> None:
    if loss_scale != 1.0:
        for parameter in model.parameters():
            if parameter.grad is not None:
                # Exact for scales that are powers of 2, as those that amp moves are.
                parameter.grad.mul_(1.0 / loss_scale)


BufferPolicy = Literal["first", "mean", "sync"]


def prepare_buffers(model: nn.Module, policy: BufferPolicy) -> nn.Module:
    """Returns the model in the form that a policy needs, before it is wrapped.

    Args:
      model: not wrapped yet; "sync" changes it in place.
      policy: "first" and "mean" leave it alone; "sync" makes every batch norm a `SyncBatchNorm`.

    Raises:
      ParallelError: the policy is none of these, or a layer cannot be converted.
    """
    _check_buffers(policy)
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
    _check_buffers(policy)
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _NormBase)]
    named = {f"{name}.{key}".lstrip("."): buffer for name, layer in layers for key, buffer in layer.named_buffers()}
    for name, buffer in named.items():
        # [ranks] of the buffer: gathered under every policy, so that all ranks make the same collectives.
        everyones = _gathered(buffer)
        if policy == "sync" and any(not torch.equal(other, everyones[0]) for other in everyones):
            raise ParallelError(
                f"settle_buffers: expected the same {name} on all ranks, got different ones under the policy 'sync'. "
                "Convert the model with prepare_buffers before it is wrapped."
            )
        if policy == "mean" and buffer.is_floating_point():
            # In float64, so that the order of the ranks does not show; rounded once.
            buffer.copy_(torch.stack(everyones).double().mean(0))
        else:
            buffer.copy_(everyones[0])


def _check_buffers(policy: str) -> None:
    if policy not in get_args(BufferPolicy):
        raise ParallelError(f"buffers: expected the policy 'first', 'mean' or 'sync', got {policy!r}. Choose one.")


def _gathered(buffer: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(buffer) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, buffer)
    return parts


MicroBatch = TypeVar("MicroBatch")


def accumulate(model: DistributedDataParallel, micro_batches: Iterable[MicroBatch]) -> Iterator[MicroBatch]:
    """Yields the micro-batches of one update; only the backward of the last one reduces the gradients.

    Forward and backward both belong into the loop's body: DDP decides in forward whether the backward that follows will
    reduce. The ranks may have different numbers of micro-batches, at least one each. Losses are not divided. Reducing at
    every micro-batch would not only cost more: what is summed over the ranks would count the first micro-batches once
    per rank and reduction.

    Args:
      model: torch's wrapper, or `torch_ddp.parallel`'s.
      micro_batches: anything, e.g. an iterator over a loader; read one ahead.

    Yields:
      Each micro-batch.

    Raises:
      ParallelError: the model is not wrapped, or there is no micro-batch, on which the other ranks would wait.
    """
    if not isinstance(model, DistributedDataParallel):
        raise ParallelError(
            f"accumulate: expected a DistributedDataParallel, got {type(model).__name__}. Wrap the model first."
        )
    return _accumulate(model, iter(micro_batches))


def _accumulate(model: DistributedDataParallel, iterator: Iterator[MicroBatch]) -> Iterator[MicroBatch]:
    try:
        # Read one ahead: only whoever knows that there is another one knows that this is not the last.
        current = next(iterator)
    except StopIteration:
        raise ParallelError(
            "accumulate: expected at least one micro-batch on every rank, got none. "
            "Give a rank without examples an empty one, and a loss of zero."
        ) from None
    for following in iterator:
        # Around forward and backward: DDP decides in forward, and no_sync around backward alone still reduces
        # (measured).
        with model.no_sync():
            yield current
        current = following
    yield current
