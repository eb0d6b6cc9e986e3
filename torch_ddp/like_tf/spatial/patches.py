"""Windows of an image, one after the other."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.spatial.same_padding import check_padding, pad_same, per_axis


@also_named(ksizes="kernel_size", strides="stride", rates="dilation")
def extract_image_patches(
    x: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    padding: str = "VALID",
) -> Tensor:
    """Puts the pixels of each window into the channels: rows first, then columns, then the image's channels.

    torch's ``unfold`` has the channels first. Source: tensorflow/core/kernels/extract_image_patches_op.cc, 1.15.

    Args:
        x: shape [batch, channels, height, width].
        kernel_size: height and width of the window.
        stride: step of the window.
        dilation: distance of the window's taps.
        padding: "SAME" or "VALID".

    Returns:
        Shape [batch, kernel height * kernel width * channels, *out space].

    Raises:
        LikeTfError: the padding or the numbers per axis do not fit.

    Counterpart: tf.compat.v1.extract_image_patches.
    """
    who = "extract_image_patches"
    kernel, strides, dilations = (per_axis(who, value, 2) for value in (kernel_size, stride, dilation))
    if check_padding(who, padding) == "SAME":
        x = pad_same(x, kernel, strides, dilations)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    out = [max((size - r) // s + 1, 0) for size, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    if 0 in out or not x.shape[0]:
        # A window larger than the image, which unfold refuses.
        return x.new_zeros(x.shape[0], kernel[0] * kernel[1] * x.shape[1], *out)
    windows = F.unfold(x, kernel, dilation=dilations, stride=strides)
    # [batch, channels, taps, windows] to [batch, taps, channels, windows].
    turned = windows.reshape(x.shape[0], x.shape[1], kernel[0] * kernel[1], -1).transpose(1, 2)
    return turned.reshape(x.shape[0], -1, *out)
