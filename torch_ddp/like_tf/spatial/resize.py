"""Resizing of images by TensorFlow 1's grids."""

import torch
from torch import Tensor

from torch_ddp.like_tf.errors import LikeTfError


def resize_bilinear(
    x: Tensor, size: tuple[int, int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes by linear interpolation; by default pixel i of the result lies at ``i * old / new``.

    torch has no such grid: its own are ``align_corners`` and ``half_pixel_centers``. TensorFlow's kernel gives float32
    for every input; here the dtype stays, and the weights have it. Source:
    tensorflow/core/kernels/resize_bilinear_op.cc and image_resizer_state.h, 1.15.

    Args:
        x: shape [batch, channels, height, width], floating point.
        size: height and width of the result.
        align_corners: whether the corner pixels of both images lie upon each other.
        half_pixel_centers: whether pixels are squares, as in TensorFlow 2.

    Returns:
        Shape [batch, channels, *size].

    Raises:
        LikeTfError: both kinds of grid are asked for.

    Counterpart: tf.compat.v1.image.resize_bilinear.
    """
    # Along the width first, as the kernel does it: the other order rounds otherwise.
    for axis, new in ((3, size[1]), (2, size[0])):
        at = _positions("resize_bilinear", x.shape[axis], new, align_corners, half_pixel_centers, x.dtype)
        low = at.floor()
        weight = (at - low).to(x.device)
        if axis == 2:
            weight = weight.unsqueeze(1)
        last = x.shape[axis] - 1
        # With half pixel centers the first position is below 0 where an image grows: there both neighbours are pixel
        # 0.
        left = x.index_select(axis, low.clamp(min=0).long().to(x.device))
        right = x.index_select(axis, (low + 1).clamp(0, last).long().to(x.device))
        # One product: the kernel's form, exact where both neighbours are equal; l * (1 - w) + r * w is not.
        x = left + (right - left) * weight
    return x


def resize_nearest_neighbor(
    x: Tensor, size: tuple[int, int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes by taking the pixel at ``floor(i * old / new)``, rounded instead where corners are aligned.

    Source: tensorflow/core/kernels/resize_nearest_neighbor_op.cc, 1.15.

    Args:
        x: shape [batch, channels, height, width].
        size: height and width of the result.
        align_corners: whether the corner pixels of both images lie upon each other.
        half_pixel_centers: whether pixels are squares, as in TensorFlow 2.

    Returns:
        Shape [batch, channels, *size].

    Raises:
        LikeTfError: both kinds of grid are asked for.

    Counterpart: tf.compat.v1.image.resize_nearest_neighbor.
    """
    for axis, new in ((2, size[0]), (3, size[1])):
        # The kernel decides in float32 for every dtype.
        old, dtype = x.shape[axis], torch.float32
        at = _positions("resize_nearest_neighbor", old, new, align_corners, half_pixel_centers, dtype, nearest=True)
        nearest = (at + 0.5).floor() if align_corners else at.floor()
        x = x.index_select(axis, nearest.clamp(0, old - 1).long().to(x.device))
    return x


def _positions(
    who: str,
    old: int,
    new: int,
    align_corners: bool,
    half_pixel_centers: bool,
    dtype: torch.dtype,
    nearest: bool = False,
) -> Tensor:
    if align_corners and half_pixel_centers:
        raise LikeTfError(f"{who}: expected one of align_corners and half_pixel_centers, got both. Leave one out.")
    # One new pixel has no second corner: the kernel then falls back on old / new.
    sizes = (old - 1, new - 1) if align_corners and new > 1 else (old, new)
    # A quotient in the dtype of the weights, and not in double: it is multiplied by the pixel numbers, and floor
    # decides.
    scale = torch.tensor(sizes[0], dtype=dtype) / torch.tensor(sizes[1], dtype=dtype)
    pixels = torch.arange(new, dtype=dtype)
    if not half_pixel_centers:
        return pixels * scale
    # Nearest takes the pixel that the centre lies in, linear interpolates between centres, which lie at a half.
    return (pixels + 0.5) * scale - (0.0 if nearest else 0.5)
