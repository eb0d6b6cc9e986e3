"""Puts synchronised batch norm into a model, and makes the groups it works in."""

import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _LazyNormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from torch_ddp.like_tf import BatchNorm1d, BatchNorm2d
from torch_ddp.parallel.errors import ParallelError
from torch_ddp.parallel.sync_batchnorm import SyncBatchNorm


def create_syncbn_process_group(group_size: int) -> dist.ProcessGroup | None:
    """Returns the group of `group_size` neighbouring ranks that this rank belongs to.

    All ranks have to call it, since each of them takes part in making all groups.

    Args:
      group_size: ranks per group, a divisor of the world size; 0 for one group of all.

    Returns:
      The group; None for 0.

    Raises:
      ParallelError: the size is negative, or does not divide the world size.

    Counterpart: apex.parallel.create_syncbn_process_group
    """
    if group_size == 0:
        return None
    world_size = dist.get_world_size()
    if group_size < 0 or world_size % group_size:
        raise ParallelError(
            f"create_syncbn_process_group: expected a divisor of the world size {world_size}, got {group_size}. "
            "Choose one, or 0 for all ranks."
        )
    starts = range(0, world_size, group_size)
    groups: list[dist.ProcessGroup] = [dist.new_group(list(range(start, start + group_size))) for start in starts]
    return groups[dist.get_rank() // group_size]


def convert_syncbn_model(
    module: nn.Module, process_group: dist.ProcessGroup | None = None, channel_last: bool = False
) -> nn.Module:
    """Replaces every batch norm in a model by `SyncBatchNorm`, and returns the model.

    The new layers hold the old ones' parameters and buffers themselves, so that an optimizer made before still updates
    them, and their mode. A layer used in two places stays one layer. Instance norm stays as it is.

    Args:
      module: the model, changed in place; if it is a batch norm itself, only what is returned is new.
      process_group: the ranks that share statistics; None for all.
      channel_last: whether channels are the last axis of the layers' inputs.

    Raises:
      ParallelError: a layer is lazy and has not seen an input, or keeps the biased variance (`like_tf`, not fused).

    Counterpart: apex.parallel.convert_syncbn_model
    """
    return _converted(module, process_group, channel_last, {})


def _converted(
    module: nn.Module,
    process_group: dist.ProcessGroup | None,
    channel_last: bool,
    done: dict[nn.Module, nn.Module],
) -> nn.Module:
    if module not in done:
        done[module] = module
        if isinstance(module, _BatchNorm) and not isinstance(module, _InstanceNorm):
            done[module] = _synchronized(module, process_group, channel_last)
        for name, child in module._modules.items():
            if child is not None:
                setattr(done[module], name, _converted(child, process_group, channel_last, done))
    return done[module]


def _synchronized(module: _BatchNorm, process_group: dist.ProcessGroup | None, channel_last: bool) -> SyncBatchNorm:
    _check_convertible(module)
    new = SyncBatchNorm(
        module.num_features,
        module.eps,
        module.momentum,
        False,
        False,
        process_group,
        channel_last,
        getattr(module, "fuse_relu", False),
    )
    new.affine, new.track_running_stats, new.training = module.affine, module.track_running_stats, module.training
    for name in ("weight", "bias"):
        new.register_parameter(name, getattr(module, name))
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        new.register_buffer(name, getattr(module, name))
    return new


def _check_convertible(module: _BatchNorm) -> None:
    if isinstance(module, _LazyNormBase) and module.has_uninitialized_params():
        raise ParallelError(
            f"convert_syncbn_model: expected layers with known channels, got {type(module).__name__}. "
            "Run one batch through the model first."
        )
    if isinstance(module, BatchNorm1d | BatchNorm2d) and not module.fused:
        raise ParallelError(
            f"convert_syncbn_model: expected layers that keep the unbiased variance, got like_tf."
            f"{type(module).__name__} with fused=False, which keeps the biased one. Make it with fused=True."
        )
