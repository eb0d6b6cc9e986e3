"""Normalisation by the statistics of a group of ranks, and its gradient."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


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
            dbias = sum_dy
        if ctx.needs_input_grad[0]:
            sums = torch.cat([sum_dy, sum_dy_centered]).double()
            dist.all_reduce(sums, group=ctx.group)
            mean_dy, mean_dy_centered = (sums / count).to(mean.dtype).chunk(2)
            scale = inverse if weight is None else inverse * weight.to(inverse.dtype)
            slope = mean_dy_centered * inverse.square()
            dx = ((dy - mean_dy.view(shape) - centered * slope.view(shape)) * scale.view(shape)).to(x.dtype)
        return dx, dweight, dbias, None, None, None, None, None


def _along(x: Tensor, channel_axis: int) -> list[int]:
    return [-1 if axis == channel_axis else 1 for axis in range(x.dim())]
