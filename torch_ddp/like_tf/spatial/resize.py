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


def resize_bicubic(
    x: Tensor, size: tuple[int, int], align_corners: bool = False, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes by cubic interpolation with weights of a table of 1024 steps; by default pixel i lies at ``i * old / new``.

    The cubic has the slope -0.75 and repeats pixels at the edges, as torch's has; with half_pixel_centers it has -0.5, and
    what lies outside counts for nothing. TensorFlow's kernel gives float32 for every input; here the dtype stays. Source:
    tensorflow/core/kernels/resize_bicubic_op.cc, 1.15.

    Args:
        x: shape [batch, channels, height, width], floating point.
        size: height and width of the result.
        align_corners: whether the corner pixels of both images lie upon each other.
        half_pixel_centers: whether pixels are squares, as in TensorFlow 2.

    Returns:
        Shape [batch, channels, *size].

    Raises:
        LikeTfError: both kinds of grid are asked for.

    Counterpart: tf.compat.v1.image.resize_bicubic.
    """
    # Along the height first, as the kernel does it.
    for axis, new in ((2, size[0]), (3, size[1])):
        old = x.shape[axis]
        at = _positions("resize_bicubic", old, new, align_corners, half_pixel_centers, torch.float32)
        taps, weights = _cubic(at, old, half_pixel_centers)
        shape = [-1, 1] if axis == 2 else [-1]
        rows = [
            x.index_select(axis, tap.to(x.device)) * weight.to(x).reshape(shape)
            for tap, weight in zip(taps, weights, strict=True)
        ]
        x = rows[0] + rows[1] + rows[2] + rows[3]
    return x


def resize_area(x: Tensor, size: tuple[int, int], align_corners: bool = False) -> Tensor:
    """Resizes by averaging the pixels that each new pixel covers, parts of them by their part.

    torch's "area" takes whole pixels. TensorFlow has no gradient of it; here there is one. Its kernel gives float32 for
    every input; here the dtype stays. Source: tensorflow/core/kernels/resize_area_op.cc, 1.15.

    Args:
        x: shape [batch, channels, height, width], floating point.
        size: height and width of the result.
        align_corners: whether the scale is that between the corners, ``(old - 1) / (new - 1)``.

    Returns:
        Shape [batch, channels, *size].

    Counterpart: tf.compat.v1.image.resize_area.
    """
    rows, columns = (_areas(old, new, align_corners).to(x) for old, new in zip(x.shape[2:], size, strict=True))
    return rows @ x @ columns.T


STEPS = 1024  # of the table of cubic weights


def _cubic(at: Tensor, old: int, keys: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the four pixels of each position, int64 [new], and their weights, float32 [new]."""
    a = -0.5 if keys else -0.75
    low = at.floor()
    # lrintf: to the nearest step, a half to the even one.
    offset = ((at - low) * STEPS).round().long()
    x = torch.arange(STEPS + 1, dtype=torch.float32)
    near, far = (x / STEPS).double(), (x / STEPS + 1).double()
    inner = (((a + 2) * near - (a + 3)) * near * near + 1).float()
    outer = (((a * far - 5 * a) * far + 8 * a) * far - 4 * a).float()
    weights = [outer[offset], inner[offset], inner[STEPS - offset], outer[STEPS - offset]]
    wanted = [low.long() + step for step in (-1, 0, 1, 2)]
    taps = [tap.clamp(0, old - 1) for tap in wanted]
    if keys:
        inside = [weight * (tap == want) for weight, tap, want in zip(weights, taps, wanted, strict=True)]
        total = inside[0] + inside[1] + inside[2] + inside[3]
        weights = [weight * (1.0 / total) for weight in inside]
    return taps, weights


def _areas(old: int, new: int, align_corners: bool) -> Tensor:
    """Returns the share that each old pixel has in each new one, float32 [new, old]."""
    sizes = (old - 1, new - 1) if align_corners and new > 1 else (old, new)
    scale = torch.tensor(sizes[0], dtype=torch.float32) / torch.tensor(sizes[1], dtype=torch.float32)
    shares = torch.zeros(new, old)
    for pixel in range(new):
        # Products of float32 numbers: whether an edge lies in the next pixel is decided by their rounding.
        start, end = pixel * scale, (pixel + 1) * scale
        for source in range(int(start.floor()), int(end.ceil())):
            before = source + 1 - start if source < start else None
            if before is None:
                share = end - source if source + 1 > end else torch.ones(())
            else:
                share = scale if source + 1 > end else before
            # A new pixel may reach past the edge by a rounding: the last pixel counts once more then.
            shares[pixel, min(max(source, 0), old - 1)] += share
    return shares / scale


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
