"""Convolutions and transposed convolutions with TensorFlow's paddings."""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.initializers import glorot_uniform_
from torch_ddp.like_tf.spatial.same_padding import check_padding, pad_same, per_axis, same_padding

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@also_named(strides="stride", dilations="dilation")
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
    # One number per spatial axis, (height, width) of images.
    strides, dilations = (per_axis("conv", value, axes) for value in (stride, dilation))
    # Padded here and not by F.conv, whose numbers pad both ends alike: SAME puts the odd element at the end.
    if check_padding("conv", padding) == "SAME":
        x = pad_same(x, weight.shape[2:], strides, dilations)
    return _CONVOLUTIONS[axes](x, weight, bias, strides, 0, dilations, groups)


class _Conv(nn.Module):
    _axes: ClassVar[int]

    @also_named(filters="out_channels", strides="stride", dilation_rate="dilation", use_bias="bias")
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
        super().__init__()
        who = type(self).__name__
        self.padding = check_padding(who, padding)
        self.kernel_size, self.stride, self.dilation = (
            per_axis(who, value, self._axes) for value in (kernel_size, stride, dilation)
        )
        self.groups = groups
        # [out, in / groups, *kernel]
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

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: lengths of the window.
        stride: step of the window.
        padding: "SAME" or "VALID".
        dilation: distance of the window's taps.
        groups: as in torch.
        bias: whether there is a bias.

    Counterpart: tf.compat.v1.layers.Conv1D.
    """

    _axes = 1


class Conv2d(_Conv):
    """Convolves over two spatial axes; see ``conv``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: lengths of the window.
        stride: step of the window.
        padding: "SAME" or "VALID".
        dilation: distance of the window's taps.
        groups: as in torch.
        bias: whether there is a bias.

    Counterpart: tf.compat.v1.layers.Conv2D.
    """

    _axes = 2


class Conv3d(_Conv):
    """Convolves over three spatial axes; see ``conv``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: lengths of the window.
        stride: step of the window.
        padding: "SAME" or "VALID".
        dilation: distance of the window's taps.
        groups: as in torch.
        bias: whether there is a bias.

    Counterpart: tf.compat.v1.layers.Conv3D.
    """

    _axes = 3


@also_named(strides="stride")
def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Convolves in transposed form as TensorFlow does, the odd element of SAME cut at the end.

    torch's ``padding`` and ``output_padding`` can say this only where kernel minus stride is even; elsewhere the
    shape is right and the values are shifted by one.

    Args:
        x: shape [batch, in channels, height, width].
        weight: shape [in channels, out channels, *kernel]: TensorFlow's [height, width, out, in] with its
            axes moved to (3, 2, 0, 1).
        bias: shape [out channels], or None.
        stride: step of the window on the output.
        padding: "SAME" or "VALID".
        output_size: height and width of the result where it is not tf.layers' choice, ``size * stride`` for SAME and
            ``size * stride + max(kernel - stride, 0)`` for VALID.

    Returns:
        Shape [batch, out channels, *output size].

    Raises:
        LikeTfError: a forward convolution of ``output_size`` would not give the size of ``x``.

    Counterpart: tf.compat.v1.nn.conv2d_transpose, tf.compat.v1.layers.conv2d_transpose.
    """
    strides = per_axis("conv2d_transpose", stride, 2)
    same = check_padding("conv2d_transpose", padding) == "SAME"
    # Every element that any window reaches: (n - 1) * stride + kernel along an axis. What SAME leaves out is cut
    # below.
    full = F.conv_transpose2d(x, weight, None, strides)
    for axis, (n, k, s) in enumerate(zip(x.shape[2:], weight.shape[2:], strides, strict=True)):
        size = output_size[axis] if output_size is not None else n * s + (0 if same else max(k - s, 0))
        # The output that a forward convolution of this size has: ceil(size / stride), and ceil((size - kernel + 1) /
        # stride).
        forward = -(-size // s) if same else -(-(size - k + 1) // s)
        if forward != n:
            raise LikeTfError(
                f"conv2d_transpose: expected an output_size that a {padding} convolution takes to {n}, "
                f"got {size}, which it takes to {forward}. Leave output_size out to get TensorFlow's choice."
            )
        before = same_padding(size, k, s)[0] if same else 0
        full = _cut(full, 2 + axis, before, size)
    # After the cut: elements that no window reaches are zero, and get the bias too.
    return full if bias is None else full + bias[:, None, None]


def _cut(x: Tensor, axis: int, before: int, size: int) -> Tensor:
    # As many elements as there are from `before` on, at most `size`.
    kept = x.narrow(axis, before, min(size, x.shape[axis] - before))
    missing = size - kept.shape[axis]
    # Where the stride is larger than the kernel, the last elements are reached by no window and stay zero.
    return F.pad(kept, [0, 0] * (x.dim() - 1 - axis) + [0, missing]) if missing else kept


class ConvTranspose2d(nn.Module):
    """Convolves in transposed form; see ``conv2d_transpose``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of the window.
        stride: step of the window on the output.
        padding: "SAME" or "VALID".
        bias: whether there is a bias.

    Counterpart: tf.compat.v1.layers.Conv2DTranspose.
    """

    @also_named(filters="out_channels", strides="stride", use_bias="bias")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str = "SAME",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.padding = check_padding("ConvTranspose2d", padding)
        self.kernel_size, self.stride = (per_axis("ConvTranspose2d", value, 2) for value in (kernel_size, stride))
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values that tf.layers gives: glorot uniform, bias zero."""
        glorot_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Convolves in transposed form.

        Args:
            x: shape [batch, in channels, height, width].
            output_size: height and width of the result, or None for TensorFlow's choice.

        Returns:
            Shape [batch, out channels, *output size].
        """
        return conv2d_transpose(x, self.weight, self.bias, self.stride, self.padding, output_size)
