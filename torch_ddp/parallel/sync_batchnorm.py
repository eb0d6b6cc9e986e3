"""Batch normalisation over the batches of all ranks, on CPU and GPU."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from torch_ddp.parallel.errors import ParallelError
from torch_ddp.parallel.normalize import Normalize
from torch_ddp.parallel.statistics import Statistics, group_statistics


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
                f"shape {tuple(input.shape)}. Mend num_features or channel_last."
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
        return 1.0 / int(self.num_batches_tracked) if self.momentum is None else self.momentum

    def _move(self, statistics: Statistics) -> None:
        momentum = self._advance()
        if self.running_mean is None or self.running_var is None:
            return
        unbiased = statistics.variance * statistics.values / (statistics.values - 1)
        for running, new in ((self.running_mean, statistics.mean), (self.running_var, unbiased)):
            running.mul_(1 - momentum).add_((momentum * new).to(running.dtype))
