"""Batch norm by the statistics of a group of ranks, and the conversion of a model's batch norms to it."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm, _LazyNormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from torch_ddp.like_tf import BatchNorm1d, BatchNorm2d
from torch_ddp.parallel.errors import ParallelError


class Normalize(torch.autograd.Function):
    """Computes ``(x - mean) / sqrt(variance + eps) * weight + bias``, with the mean and variance of all ranks' x.

    The gradient of `x` needs the other ranks' gradients, one all-reduce of two numbers per channel, so that every rank has
    to run backward; those of weight and bias stay this rank's own, for DDP to reduce.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015, section 3; the sums in place of means as in csrc/welford.cu of
    NVIDIA/apex 25.04.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        inverse: Tensor,
        count: Tensor,
        channel_axis: int,
        group: dist.ProcessGroup | None,
    ) -> Tensor:
        """Normalises this rank's values.

        Args:
          ctx: for backward.
          x: this rank's values; may be empty.
          weight: shape [channels], or None for ones.
          bias: shape [channels], or None for zeros.
          mean: shape [channels], of all ranks; its dtype is computed in.
          inverse: shape [channels], ``1 / sqrt(variance + eps)``.
          count: shape [], values per channel over all ranks.
          channel_axis: of `x`.
          group: the ranks; None for all.

        Returns:
          The shape and dtype of `x`.
        """
        ctx.save_for_backward(x, weight, mean, inverse, count)
        ctx.channel_axis, ctx.group = channel_axis, group
        shape = _along(x, channel_axis)
        scale = inverse if weight is None else inverse * weight.to(inverse.dtype)
        output = (x.to(mean.dtype) - mean.view(shape)) * scale.view(shape)
        if bias is not None:
            output = output + bias.to(mean.dtype).view(shape)
        return output.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of `x`, weight and bias."""
        x, weight, mean, inverse, count = ctx.saved_tensors
        shape = _along(x, ctx.channel_axis)
        axes = [axis for axis in range(x.dim()) if axis != ctx.channel_axis]
        dy = dy.to(mean.dtype)
        centered = x.to(mean.dtype) - mean.view(shape)
        sum_dy, sum_dy_centered = dy.sum(axes), (dy * centered).sum(axes)
        dx = dweight = dbias = None
        if ctx.needs_input_grad[1]:
            dweight = (sum_dy_centered * inverse).to(weight.dtype)
        if ctx.needs_input_grad[2]:
            # This rank's own sums: DDP reduces them like any gradient, and would count them twice if they were
            # reduced here.
            dbias = sum_dy
        if ctx.needs_input_grad[0]:
            # [2 * channels] in float64: the sums run over all values of all ranks, and are divided by their number.
            sums = torch.cat([sum_dy, sum_dy_centered]).double()
            dist.all_reduce(sums, group=ctx.group)
            mean_dy, mean_dy_centered = (sums / count).to(mean.dtype).chunk(2)
            scale = inverse if weight is None else inverse * weight.to(inverse.dtype)
            # dx = (dy - mean(dy) - (x - M) / (var + eps) * mean(dy * (x - M))) * weight / sqrt(var + eps), means over
            # all ranks.
            slope = mean_dy_centered * inverse.square()
            dx = ((dy - mean_dy.view(shape) - centered * slope.view(shape)) * scale.view(shape)).to(x.dtype)
        return dx, dweight, dbias, None, None, None, None, None


def _along(x: Tensor, channel_axis: int) -> list[int]:
    return [-1 if axis == channel_axis else 1 for axis in range(x.dim())]


class Statistics(NamedTuple):
    """What batch norm needs to know about the examples of all ranks.

    Fields:
      mean: shape [channels], float64.
      variance: shape [channels], float64; biased, divided by the number of values.
      values: shape [], float64; how many per channel over all ranks.
    """

    mean: Tensor
    variance: Tensor
    values: Tensor


def group_statistics(x: Tensor, axes: list[int], group: dist.ProcessGroup | None) -> Statistics:
    """Returns mean, variance and count over all ranks of a group: one all-gather, the same bits on every rank.

    Each rank sums the squares around its own mean; Chan, Golub and LeVeque's update then moves them to the common mean,
    so that unequal shards weigh what they hold, an empty one nothing, and no large mean cancels.

    Args:
      x: this rank's values, float32 or float64; may be empty.
      axes: all axes but that of the channels.
      group: the ranks; None for all.

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    gathered = _all_gather(_own(x, axes), group)
    means, squares = gathered[:, 1:].chunk(2, dim=1)
    counts = gathered[:, :1]
    count = counts.sum()
    # gathered: float64 [ranks, 1 + 2 * channels], by rank count, means and sums of squares around its own mean.
    mean = (counts * means).sum(0) / count
    # Chan: sum (x - M)^2 = sum over ranks of [sum (x - m_r)^2 + n_r (m_r - M)^2]. Apex's Python fallback averages the
    # means unweighted (mean off by 0.94, variance by 2.3% for a split 6 to 3 of data with deviation 50) and takes
    # E[x^2] - E[x]^2, 0.0 in place of 1.1e-4 at a mean of 1000.
    spread = squares.sum(0) + (counts * (means - mean).square()).sum(0)
    return Statistics(mean, spread / count, count)


def _own(x: Tensor, axes: list[int]) -> Tensor:
    channels = next(size for axis, size in enumerate(x.shape) if axis not in axes)
    count = x.numel() // channels
    # float64: a float32 counts no further than 2**24, which a batch of 64 images of 512 x 512 reaches.
    own = x.new_zeros(1 + 2 * channels, dtype=torch.float64)
    own[0] = count
    if count:
        # Of this rank, in the dtype of x, as the sums of squares around it; what is made of them and other ranks' is
        # float64.
        mean = x.mean(axes, keepdim=True)
        own[1 : 1 + channels] = mean.flatten()
        own[1 + channels :] = (x - mean).square().sum(axes)
    return own


def _all_gather(own: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return torch.stack(parts)


class SyncBatchNorm(_BatchNorm):
    """Batch norm whose statistics, in training, are those of the batches of all ranks together.

    As if one process had normalised the whole batch, whatever part of it each rank has, none included. In evaluation, in
    a group of one and without a process group it is plain batch norm. It is no `torch.nn.SyncBatchNorm`, which
    DistributedDataParallel refuses on CPU.

    Args:
      num_features: channels, axis 1 of the input.
      eps: added to the variance.
      momentum: weight of the new statistics in the running ones, in [0, 1]; None for the mean over all batches.
      affine: whether to learn a weight and a bias.
      track_running_stats: whether to keep running statistics; without them evaluation uses its own batch's.
      process_group: the ranks that share statistics, e.g. of `create_syncbn_process_group`; None for all.
      channel_last: whether channels are the last axis.
      fuse_relu: whether to apply a ReLU to the output.

    Counterpart: apex.parallel.SyncBatchNorm
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: dist.ProcessGroup | None = None,
        channel_last: bool = False,
        fuse_relu: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_group = process_group
        self.channel_last = channel_last
        self.fuse_relu = fuse_relu

    def forward(self, input: Tensor, z: Tensor | None = None) -> Tensor:
        """Normalises, and moves the running statistics when training.

        Args:
          input: shape [batch, channels, ...], or [batch, ..., channels] with `channel_last`; the batch may be empty on
            some ranks. Half, bfloat16, float32 or float64.
          z: the shape of `input`; added to the output, before the ReLU.

        Returns:
          The shape and dtype of `input`.

        Raises:
          ParallelError: the shape does not fit, this process is not in the group, or there is one value per channel.
        """
        channel_axis = self._channel_axis(input)
        if self.training and self._shared():
            output = self._normalize(input, channel_axis)
        else:
            output = self._plain(input.movedim(channel_axis, 1)).movedim(1, channel_axis)
        if z is not None:
            output = output + z
        return F.relu(output) if self.fuse_relu else output

    def extra_repr(self) -> str:
        """Names the settings for ``repr``."""
        plain = super().extra_repr()  # type: ignore[no-untyped-call]
        return f"{plain}, channel_last={self.channel_last}, fuse_relu={self.fuse_relu}"

    def _channel_axis(self, input: Tensor) -> int:
        axis = input.dim() - 1 if self.channel_last else 1
        if input.dim() < 2 or input.shape[axis] != self.num_features or not input.is_floating_point():
            raise ParallelError(
                f"SyncBatchNorm: expected floats with {self.num_features} channels on axis {axis}, got {input.dtype} of "
                f"shape {tuple(input.shape)}. Fix num_features or channel_last."
            )
        return axis

    def _shared(self) -> bool:
        if not (dist.is_available() and dist.is_initialized()):
            return False
        members = dist.get_world_size(self.process_group)
        if members < 1:
            raise ParallelError(
                "SyncBatchNorm: expected a process group that this rank is in, got one that it is not in. "
                "Make it with create_syncbn_process_group."
            )
        return members > 1

    def _plain(self, input: Tensor) -> Tensor:
        momentum = self._advance() if self.training else 0.0
        training = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training, momentum, self.eps
        )

    def _normalize(self, input: Tensor, channel_axis: int) -> Tensor:
        # Half inputs are computed in float32 and come back in half. Apex's fallback notes the dtype after casting,
        # and returns float32.
        dtype = torch.float64 if input.dtype is torch.float64 else torch.float32
        axes = [axis for axis in range(input.dim()) if axis != channel_axis]
        with torch.no_grad():
            statistics = group_statistics(input.to(dtype), axes, self.process_group)
            self._check_count(input, statistics)
            self._move(statistics)
            inverse = (statistics.variance + self.eps).rsqrt().to(dtype)
        return Normalize.apply(  # type: ignore[no-any-return, no-untyped-call]
            input,
            self.weight,
            self.bias,
            statistics.mean.to(dtype),
            inverse,
            statistics.values,
            channel_axis,
            self.process_group,
        )

    def _check_count(self, input: Tensor, statistics: Statistics) -> None:
        # Only a rank with one value at most can be in a group with one value: no other waits for the device here.
        if input.numel() <= self.num_features and int(statistics.values) < 2:
            raise ParallelError(
                f"SyncBatchNorm: expected more than one value per channel over all ranks when training, got "
                f"{int(statistics.values)}, here of shape {tuple(input.shape)}. Use a larger batch, or eval()."
            )

    def _advance(self) -> float:
        if self.num_batches_tracked is None:
            return 0.0
        self.num_batches_tracked.add_(1)
        # 1, 1/2, 1/3, ...: the running statistics are the mean over all batches. Apex's fallback fails for None.
        return 1.0 / int(self.num_batches_tracked) if self.momentum is None else self.momentum

    def _move(self, statistics: Statistics) -> None:
        momentum = self._advance()
        if self.running_mean is None or self.running_var is None:
            return
        # Over the values of all ranks: what one batch norm over the whole batch keeps, in torch as in welford.cu of
        # Apex.
        unbiased = statistics.variance * statistics.values / (statistics.values - 1)
        for running, new in ((self.running_mean, statistics.mean), (self.running_var, unbiased)):
            # momentum * new in float64, rounded once to the dtype of the buffer.
            running.mul_(1 - momentum).add_((momentum * new).to(running.dtype))


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
    # Every rank makes every group, in this order: new_group is a collective of all.
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
    # Made without parameters and buffers, and given the old ones: Apex clones them, and drops the mode.
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
