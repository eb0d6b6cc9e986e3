"""Ways of resizing images: where the new pixels lie among the old ones, and what is taken there."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from parity.trace.arrays import Array

# Sources: tensorflow/core/kernels/image (resize_bilinear_op, resize_nearest_neighbor_op) and torch's UpSample.h.
ALIGNED, CENTRED, CORNER = "with aligned corners", "between the centres of pixels", "from the first corner on"
PIXEL_GRIDS: dict[str, Callable[[Array, int, int], Array]] = {
    CORNER: lambda at, old, new: at * old / new,
    CENTRED: lambda at, old, new: (at + 0.5) * old / new - 0.5,
    ALIGNED: lambda at, old, new: at * (old - 1) / max(new - 1, 1),
}


def bilinear(images: Array, size: Sequence[int], aligned: bool, centred: bool) -> Array:
    """Returns images ``[n, h', w', c]``.

    Args:
      images: ``[n, h, w, c]``.
      size: h' and w'.
      aligned: whether the corners' centres are the same.
      centred: else, whether the new pixels lie between the centres of the old ones.
    """
    place = PIXEL_GRIDS[ALIGNED if aligned else CENTRED if centred else CORNER]
    at = [place(np.arange(new), old, new) for old, new in zip(images.shape[1:3], size, strict=True)]
    return _linear(_linear(images, at[0], 1), at[1], 2)


def resized(images: Array, size: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Yields ways of resizing in words, and the images ``[n, h', w', c]`` that they give.

    Args:
      images: ``[n, h, w, c]``.
      size: h' and w', or h' and w, where one axis is resized after the other.
    """
    for words, place in PIXEL_GRIDS.items():
        at = [place(np.arange(new), old, new) for old, new in zip(images.shape[1:3], size, strict=True)]
        yield f"bilinear {words}", _linear(_linear(images, at[0], 1), at[1], 2)
        # Halves go up, as by the roundf of TensorFlow's kernel; numpy's own rounding takes them to even.
        for how, whole in (("rounded down", np.floor), ("to the nearest", lambda x: np.floor(x + 0.5))):
            picked = [
                np.clip(whole(each), 0, old - 1).astype(int) for each, old in zip(at, images.shape[1:3], strict=True)
            ]
            yield f"one pixel each {words}, {how}", images[:, picked[0]][:, :, picked[1]]


def _linear(images: Array, at: Array, axis: int) -> Array:
    last = images.shape[axis] - 1
    at = np.clip(at, 0, last)
    below = np.floor(at).astype(int)
    share = (at - below).reshape([-1 if each == axis else 1 for each in range(images.ndim)])
    # Beyond the last centre the last pixel is repeated: below and above are both it.
    above = np.minimum(below + 1, last)
    return np.asarray(images.take(below, axis=axis) * (1 - share) + images.take(above, axis=axis) * share)
