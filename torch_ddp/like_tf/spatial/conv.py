"""Convolution with TensorFlow's paddings."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.initializers import glorot_uniform_
from torch_ddp.like_tf.spatial.same_padding import check_padding, pad_same, per_axis

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Convolves over one, two or three spatial axes as TensorFlow does.

    Args:
        x: shape [batch, channels, *space].
        weight: shape [out channels, channels / groups, *kernel]: TensorFlow's [*kernel, in, out] with the last two axes
            moved to the front in reverse.
        bias: shape [out channels], or None.
        stride: step of the window.
        padding: "SAME" (any stride and dilation) or "VALID".
        dilation: distance of the window's taps.
        groups: as in torch; a depthwise convolution has as many as channels.

    Returns:
        Shape [batch, out channels, *ceil(space / stride)] for SAME.

    Raises:
        LikeTfError: the shapes, the padding or the numbers per axis do not fit.

    Counterpart: tf.compat.v1.nn.conv2d, tf.compat.v1.nn.convolution.
    """
    axes = x.dim() - 2
    if axes not in _CONVOLUTIONS or weight.dim() != x.dim():
        raise LikeTfError(
            f"conv: expected x and weight of 3 to 5 axes, the same number, got {x.dim()} and {weight.dim()}. "
            "Put batch and channels first."
        )
    strides, dilations = (per_axis("conv", value, axes) for value in (stride, dilation))
    if check_padding("conv", padding) == "SAME":
        x = pad_same(x, weight.shape[2:], strides, dilations)
    return _CONVOLUTIONS[axes](x, weight, bias, strides, 0, dilations, groups)


class _Conv(nn.Module):
    def __init__(
        self,
        axes: int,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: str,
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.padding = check_padding(who, padding)
        self.kernel_size, self.stride, self.dilation = (
            per_axis(who, value, axes) for value in (kernel_size, stride, dilation)
        )
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values that tf.layers gives: glorot uniform, bias zero."""
        glorot_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Convolves.

        Args:
            x: shape [batch, in channels, *space].

        Returns:
            Shape [batch, out channels, *out space].
        """
        return conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        """Names the settings for ``repr``."""
        return f"{tuple(self.weight.shape)}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}"


class Conv1d(_Conv):
    """Convolves over one spatial axis; see ``conv``.

    Counterpart: tf.compat.v1.layers.Conv1D.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str = "SAME",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(1, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)


class Conv2d(_Conv):
    """Convolves over two spatial axes; see ``conv``.

    Counterpart: tf.compat.v1.layers.Conv2D.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str = "SAME",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(2, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)


class Conv3d(_Conv):
    """Convolves over three spatial axes; see ``conv``.

    Counterpart: tf.compat.v1.layers.Conv3D.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str = "SAME",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(3, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
