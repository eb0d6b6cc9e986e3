"""The transforms of arrays that one side holds in one and the other in several: query, key and value, and flattened maps."""

import math

import numpy as np

from parity.mapping.errors import MappingError
from parity.mapping.layouts import flatten_hwc
from parity.mapping.transforms import Array, Shape, Transform, misfit, register


@register("rows")
def rows(index: int, count: int) -> Transform:
    """Puts an array in place as block `index` of `count` equal blocks of rows, as `MultiheadAttention` packs its kernels.

    `torch.nn.MultiheadAttention.in_proj_weight` ``[3 d, d]`` holds query, key and value, 0 to 2, each ``[d, d]``.

    Source: torch/nn/modules/activation.py, MultiheadAttention.
    """
    text = f"rows({index}, {count})"
    if type(index) is not int or type(count) is not int or not 0 <= index < count:
        raise MappingError(f"{text}: expected a block's number below the number of blocks. Count from 0.")

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if not array.ndim:
            raise misfit(text, "an array with rows", array.shape)
        return (array,)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if not array.ndim or array.shape[0] % count:
            raise misfit(text, f"rows in {count} equal blocks", array.shape)
        size = array.shape[0] // count
        return array[index * size : (index + 1) * size]

    return Transform(text, 1, False, forward, backward, (index, count))


@register("split")
def split(count: int) -> Transform:
    """Cuts the last axis into `count` equal pieces, kernels turned: ``[in, n out]`` into n times ``[out, in]``.

    A bias ``[n out]`` becomes n times ``[out]``.
    """
    text = f"split({count})"
    if type(count) is not int or count < 2:
        raise MappingError(f"{text}: expected a number of pieces of at least 2. Write how many.")

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] % count:
            raise misfit(text, f"[in, {count} out] or [{count} out]", array.shape)
        return tuple(piece.T for piece in np.split(array, count, axis=-1))

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        if any(array.shape != arrays[0].shape or array.ndim not in (1, 2) for array in arrays):
            raise misfit(text, f"{count} arrays of one shape", arrays[-1].shape)
        return np.concatenate([array.T for array in arrays], axis=-1)

    return Transform(text, count, False, forward, backward)


@register("unflatten_hwc")
def unflatten_hwc(height: int, width: int, channels: int) -> Transform:
    """Turns the kernel of a dense layer in front of a map, ``[in, h * w * c]``, into ``[c * h * w, in]``.

    A vector ``[h * w * c]``, such as its bias, becomes ``[c * h * w]``. TensorFlow makes a map with channels last of the
    outputs, torch one with channels first.
    """
    text = f"unflatten_hwc({height}, {width}, {channels})"
    inner = flatten_hwc(height, width, channels)
    outputs = math.prod((height, width, channels))

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim not in (1, 2) or array.shape[-1] != outputs:
            raise misfit(text, f"[in, {outputs}] or [{outputs}]", array.shape)
        (moved,) = inner.forward(array.T if array.ndim == 2 else array[:, None], linear)
        return (moved.T if array.ndim == 2 else moved[0],)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if array.ndim not in (1, 2) or array.shape[0] != outputs:
            raise misfit(text, f"[{outputs}, in] or [{outputs}]", array.shape)
        moved = inner.backward(array.T if array.ndim == 2 else array[None], linear=linear)
        return moved.T if array.ndim == 2 else moved[:, 0]

    return Transform(text, 1, False, forward, backward)
