"""SAME padding: as much as the input's own size needs, the odd element at the end."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError

PADDINGS = ("SAME", "VALID")


def same_padding(size: int, kernel: int, stride: int = 1, dilation: int = 1) -> tuple[int, int]:
    """Returns the padding before and after one axis.

    It depends on the input's size: kernel 3 and stride 2 pad an even size by (0, 1) and an odd one by (1, 1). Source:
    GetWindowedOutputSize in tensorflow/core/framework/common_shape_fns.cc, 1.15.

    Args:
        size: length of the input along the axis.
        kernel: length of the window.
        stride: step of the window.
        dilation: distance of the window's taps.

    Returns:
        Elements to put before and after; after is the larger one.
    """
    # ceil(size / stride) windows, the last of which ends at (outputs - 1) * stride + (kernel - 1) * dilation + 1.
    outputs = -(-size // stride)
    # Not below 0: with a stride above the kernel the windows end before the input does.
    total = max((outputs - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    # The odd element after: torch's own padding="same" puts it there too, but refuses strides above 1.
    return total // 2, total - total // 2


def pad_same(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], value: float = 0.0
) -> Tensor:
    """Pads the last axes of a tensor so that a VALID window gives what TensorFlow's SAME window gives.

    Args:
        x: shape [batch, channels, *space].
        kernel: one length per spatial axis.
        stride: one step per spatial axis.
        dilation: one distance per spatial axis.
        value: what to pad with.

    Returns:
        The padded tensor, or ``x`` itself when nothing has to be padded.
    """
    pads: list[int] = []
    for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True):
        # F.pad counts axes from the last.
        pads = [*same_padding(size, k, s, d), *pads]
    return F.pad(x, pads, value=value) if any(pads) else x


def per_axis(who: str, value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Spells a number per spatial axis out.

    Args:
        who: the caller, for the message.
        value: one number for all axes, or one each.
        axes: how many spatial axes there are.

    Returns:
        One number per axis.

    Raises:
        LikeTfError: there are more or fewer numbers than axes, or one is below 1.
    """
    spelled = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(spelled) != axes or min(spelled) < 1:
        raise LikeTfError(
            f"{who}: expected {axes} positive numbers, got {value}. Give one per spatial axis, or one for all."
        )
    return spelled


def check_padding(who: str, padding: str) -> str:
    """Checks a padding by name.

    Args:
        who: the caller, for the message.
        padding: "SAME" or "VALID", in any case.

    Returns:
        The name in capitals.

    Raises:
        LikeTfError: the name is another one, or a number.
    """
    name = padding.upper() if isinstance(padding, str) else padding
    if name not in PADDINGS:
        raise LikeTfError(f"{who}: expected padding 'SAME' or 'VALID', got {padding!r}. Pad by hand and take 'VALID'.")
    return name
