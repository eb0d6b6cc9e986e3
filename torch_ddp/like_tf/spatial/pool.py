"""Max and average pooling with TensorFlow's paddings, and flattening in its order."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from torch_ddp.like_tf.arguments import also_named
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.spatial.same_padding import check_padding, pad_same, per_axis


@also_named(ksize="kernel_size", strides="stride")
def max_pool(
    x: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: str = "VALID"
) -> Tensor:
    """Takes the largest element of each window; SAME pads with minus infinity.

    Ties go to the first element in both frameworks (CPU). A NaN in a window is passed on, where TensorFlow's CPU kernel
    ignores it.

    Args:
        x: shape [batch, channels, *space], one to three spatial axes.
        kernel_size: lengths of the window.
        stride: steps of the window; the lengths of the window when None.
        padding: "SAME" or "VALID".

    Returns:
        Shape [batch, channels, *out space].

    Raises:
        LikeTfError: the shapes, the padding or the numbers per axis do not fit.

    Counterpart: tf.compat.v1.nn.max_pool.
    """
    kernel, strides = _window("max_pool", x, kernel_size, stride)
    if check_padding("max_pool", padding) == "SAME":
        # Minus infinity, so that padding is never the largest; no window lies in it altogether.
        x = pad_same(x, kernel, strides, (1,) * len(kernel), value=float("-inf"))
    return (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1](x, kernel, strides)


@also_named(ksize="kernel_size", strides="stride")
def avg_pool(
    x: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: str = "VALID"
) -> Tensor:
    """Averages each window over the elements that are inside the input; SAME does not count its padding.

    Args:
        x: shape [batch, channels, *space], one to three spatial axes.
        kernel_size: lengths of the window.
        stride: steps of the window; the lengths of the window when None.
        padding: "SAME" or "VALID".

    Returns:
        Shape [batch, channels, *out space].

    Raises:
        LikeTfError: the shapes, the padding or the numbers per axis do not fit.

    Counterpart: tf.compat.v1.nn.avg_pool.
    """
    kernel, strides = _window("avg_pool", x, kernel_size, stride)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    if check_padding("avg_pool", padding) == "VALID":
        return pool(x, kernel, strides)
    ones = (1,) * len(kernel)
    # The part of each window that is inside: [1, 1, *out space], by pooling ones. avg_pool pads both ends alike, and
    # its count_include_pad=False knows of no other padding.
    inside = pool(pad_same(x.new_ones(1, 1, *x.shape[2:]), kernel, strides, ones), kernel, strides)
    return pool(pad_same(x, kernel, strides, ones), kernel, strides) / inside


def _window(
    who: str, x: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axes = x.dim() - 2
    if axes not in (1, 2, 3):
        raise LikeTfError(f"{who}: expected x of 3 to 5 axes, got {x.dim()}. Put batch and channels first.")
    kernel = per_axis(who, kernel_size, axes)
    return kernel, kernel if stride is None else per_axis(who, stride, axes)


class _Pool2d(nn.Module):
    _pool: ClassVar[Callable[..., Tensor]]

    @also_named(pool_size="kernel_size", strides="stride")
    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: str = "VALID"
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, check_padding(type(self).__name__, padding)

    def forward(self, x: Tensor) -> Tensor:
        """Pools.

        Args:
            x: shape [batch, channels, height, width].

        Returns:
            Shape [batch, channels, out height, out width].
        """
        return type(self)._pool(x, self.kernel_size, self.stride, self.padding)


class MaxPool2d(_Pool2d):
    """Takes the largest element of each window; see ``max_pool``.

    Args:
        kernel_size: height and width of the window.
        stride: steps of the window; its lengths when None.
        padding: "SAME" or "VALID".

    Counterpart: tf.compat.v1.layers.MaxPooling2D.
    """

    _pool = max_pool


class AvgPool2d(_Pool2d):
    """Averages each window; see ``avg_pool``.

    Args:
        kernel_size: height and width of the window.
        stride: steps of the window; its lengths when None.
        padding: "SAME" or "VALID".

    Counterpart: tf.compat.v1.layers.AveragePooling2D.
    """

    _pool = avg_pool


def flatten(x: Tensor) -> Tensor:
    """Flattens all axes but the batch, channels last.

    Args:
        x: shape [batch, channels, *space], as torch keeps images.

    Returns:
        Shape [batch, product of space * channels], elements in TensorFlow's order (NHWC), so that the rows of a dense
        kernel that follows need not be permuted.

    Counterpart: tf.compat.v1.layers.flatten.
    """
    # NCHW to NHWC: a row of the dense kernel behind it is one (height, width, channel) in this order.
    return x.movedim(1, -1).flatten(1)


class Flatten(nn.Module):
    """Flattens all axes but the batch, channels last; see ``flatten``.

    Counterpart: tf.compat.v1.layers.Flatten.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Flattens.

        Args:
            x: shape [batch, channels, *space].

        Returns:
            Shape [batch, product of space * channels].
        """
        return flatten(x)
