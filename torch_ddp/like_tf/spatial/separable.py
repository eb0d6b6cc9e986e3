"""Convolutions in two steps, over space and over channels, and with holes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.initializers import glorot_uniform_
from torch_ddp.like_tf.spatial.conv import conv
from torch_ddp.like_tf.spatial.same_padding import check_padding, per_axis


@also_named(depthwise_filter="depthwise_weight", pointwise_filter="pointwise_weight", strides="stride", rate="dilation")
def separable_conv2d(
    x: Tensor,
    depthwise_weight: Tensor,
    pointwise_weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Convolves each channel by itself, then all of them at each pixel.

    Source: separable_conv2d in tensorflow/python/ops/nn_impl.py, 1.15.

    Args:
        x: shape [batch, channels, height, width].
        depthwise_weight: shape [channels * multiplier, 1, *kernel]: TensorFlow's [*kernel, channels, multiplier] with the
            last two axes moved to the front, and joined.
        pointwise_weight: shape [out channels, channels * multiplier, 1, 1]: TensorFlow's [1, 1, in, out], its last two
            axes moved to the front in reverse.
        bias: shape [out channels], or None.
        stride: step of the window.
        padding: "SAME" or "VALID".
        dilation: distance of the window's taps.

    Returns:
        Shape [batch, out channels, *out space].

    Raises:
        LikeTfError: both stride and dilation are above 1, or what ``conv`` refuses.

    Counterpart: tf.compat.v1.nn.separable_conv2d.
    """
    strides, dilations = (per_axis("separable_conv2d", value, 2) for value in (stride, dilation))
    if max(strides) > 1 and max(dilations) > 1:
        raise LikeTfError(
            f"separable_conv2d: expected a stride or a dilation of 1, got {strides} and {dilations}. TensorFlow has no both."
        )
    x = conv(x, depthwise_weight, None, strides, padding, dilations, groups=x.shape[1])
    return conv(x, pointwise_weight, bias, padding="VALID")


@also_named(filters="weight", rate="dilation")
def atrous_conv2d(x: Tensor, weight: Tensor, dilation: int, padding: str = "SAME") -> Tensor:
    """Convolves with holes: taps ``dilation`` pixels apart, each pixel a place of the window.

    Source: atrous_conv2d in tensorflow/python/ops/nn_ops.py, 1.15.

    Args:
        x: shape [batch, channels, height, width].
        weight: shape [out channels, channels, *kernel].
        dilation: distance of the taps, TensorFlow's rate.
        padding: "SAME" or "VALID".

    Returns:
        Shape [batch, out channels, *out space].

    Raises:
        LikeTfError: the dilation is below 1, or the padding is unknown.

    Counterpart: tf.compat.v1.nn.atrous_conv2d.
    """
    return conv(x, weight, None, 1, padding, per_axis("atrous_conv2d", dilation, 2))


class SeparableConv2d(nn.Module):
    """Convolves each channel by itself, then all of them at each pixel; see ``separable_conv2d``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output, TensorFlow's filters.
        kernel_size: height and width of the window.
        stride: step of the window.
        padding: "SAME" or "VALID"; the default of tf.layers is "VALID".
        dilation: distance of the window's taps.
        depth_multiplier: channels that each channel becomes before they are joined.
        bias: whether there is a bias.

    Attributes:
        depthwise_weight: shape [in_channels * depth_multiplier, 1, *kernel_size].
        pointwise_weight: shape [out_channels, in_channels * depth_multiplier, 1, 1].
        bias: shape [out_channels], or None.

    Counterpart: tf.compat.v1.layers.SeparableConv2D.
    """

    @also_named(filters="out_channels", strides="stride", dilation_rate="dilation", use_bias="bias")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str = "SAME",
        dilation: int | Sequence[int] = 1,
        depth_multiplier: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.padding = check_padding(who, padding)
        self.kernel_size, self.stride, self.dilation = (
            per_axis(who, value, 2) for value in (kernel_size, stride, dilation)
        )
        self.in_channels, middle = in_channels, in_channels * depth_multiplier
        self.depthwise_weight = nn.Parameter(torch.empty(middle, 1, *self.kernel_size))
        self.pointwise_weight = nn.Parameter(torch.empty(out_channels, middle, 1, 1))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values that tf.layers gives: glorot uniform both, bias zero."""
        # TensorFlow counts the fans of [*kernel, channels, multiplier]: all channels come in, though each tap sees one.
        weight = self.depthwise_weight
        kernel = weight.detach().reshape(self.in_channels, -1, *self.kernel_size).transpose(0, 1)
        glorot_uniform_(kernel)
        glorot_uniform_(self.pointwise_weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Convolves.

        Args:
            x: shape [batch, in channels, height, width].

        Returns:
            Shape [batch, out channels, *out space].
        """
        weights = self.depthwise_weight, self.pointwise_weight
        return separable_conv2d(x, *weights, self.bias, self.stride, self.padding, self.dilation)
