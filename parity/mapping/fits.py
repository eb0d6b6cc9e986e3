"""Which transforms can turn one variable into another, given who uses them."""

import math
from functools import lru_cache

from parity.mapping.errors import MappingError
from parity.mapping.transforms import parse_transform
from parity.mapping.variable import Variable

# Class of torch's module, and the TensorFlow op that fixes the kernel's layout: a layout that no shape can overrule.
_BY_USE: dict[tuple[str, str], str] = {
    ("Linear", "MatMul"): "transpose",
    ("Linear", "BatchMatMul"): "transpose",
    ("Linear", "BatchMatMulV2"): "transpose",
    ("Linear", "SparseTensorDenseMatMul"): "transpose",
    ("Conv1d", "Conv2D"): "wio_to_oiw",
    ("Conv2d", "Conv2D"): "hwio_to_oihw",
    ("Conv2d", "DepthwiseConv2dNative"): "hwcm_to_depthwise",
    ("Conv3d", "Conv3D"): "dhwio_to_oidhw",
    ("ConvTranspose1d", "Conv2DBackpropInput"): "wio_to_oiw",  # [w, out, in] to [in, out, w]: the same turn
    ("ConvTranspose2d", "Conv2DBackpropInput"): "hwoi_to_iohw",
    ("ConvTranspose3d", "Conv3DBackpropInputV2"): "dhwio_to_oidhw",  # likewise
    ("NonDynamicallyQuantizableLinear", "MatMul"): "transpose",
    ("NonDynamicallyQuantizableLinear", "BatchMatMulV2"): "transpose",
    ("Embedding", "GatherV2"): "identity",
    ("Embedding", "Gather"): "identity",
    ("Embedding", "ResourceGather"): "identity",
    ("EmbeddingBag", "GatherV2"): "identity",
    ("EmbeddingBag", "Gather"): "identity",
    ("EmbeddingBag", "ResourceGather"): "identity",
}
# What may happen to an array of so many axes where the uses do not say.
_BY_RANK: dict[int, tuple[str, ...]] = {
    2: ("identity", "transpose"),
    3: ("identity", "wio_to_oiw"),
    4: ("identity", "hwio_to_oihw", "hwcm_to_depthwise"),
    5: ("identity", "dhwio_to_oidhw"),
}

# These pack several blocks into one array, in an order of torch's own that no shape shows: never joined unasked.
PACKED = frozenset(["LSTM", "LSTMCell", "GRU", "GRUCell", "MultiheadAttention"])


def fits(reference: Variable, candidate: Variable) -> list[str]:
    """Returns every transform that may turn `reference` into `candidate`: one where the choice is clear.

    Uses decide first: a `Linear` fed by `MatMul` is transposed even where it is square, and what the same ops use on both
    sides, as in two traces of one framework, has one layout. Where they say nothing, or the shapes say the contrary, as of a
    kernel that a graph multiplies by with `transpose_b`, every transform whose result has the right shape is listed.
    Different kinds never fit, nor do modules such as `LSTM`, whose arrays hold several blocks in torch's own order.
    """
    if reference.kind != candidate.kind or candidate.use in PACKED:
        return []
    if math.prod(reference.shape) != math.prod(candidate.shape):
        return []
    return [text for text in _possible(reference, candidate) if becomes(text, reference, candidate)]


def becomes(text: str, reference: Variable, *candidates: Variable) -> bool:
    """Returns whether the transform gives exactly the shapes of `candidates`, in order."""
    return _shapes(text, reference.shape) == tuple(candidate.shape for candidate in candidates)


def fits_but_for_ones(reference: Variable, candidate: Variable) -> list[str]:
    """Returns the transforms that turn `reference` into `candidate` where shapes differ by axes of length 1 alone.

    The usual transform of the reference's kind is done first, then axes of length 1 are put in and left out: a kernel
    ``[1, 3, 1, c]`` over all of the last axis is the ``[c, 3, 1]`` of a `Conv1d`, a bias ``[1, c]`` is one ``[c]``.
    """
    if reference.kind != candidate.kind or candidate.use in PACKED:
        return []
    end = f"reshape({', '.join(map(str, candidate.shape))})"
    found = []
    for text in _usual(reference, candidate.use or ""):
        made = _shapes(text, reference.shape)
        if made and _without_ones(made[0]) == _without_ones(candidate.shape):
            found.append(end if text == "identity" else f"{text} | {end}")
    return found


def without_leading_ones(text: str, reference: Variable, *candidates: Variable) -> str | None:
    """Returns the transform that makes `candidates` of `reference` by `text`, leading axes of length 1 left out if need be.

    None where there is none. What is written as a convolution over one place has such axes: ``[1, in, out]``.
    """
    if becomes(text, reference, *candidates):
        return text
    shape = reference.shape
    while shape[:1] == (1,):
        shape = shape[1:]
        head = f"reshape({', '.join(map(str, shape))})"
        whole = head if text == "identity" else f"{head} | {text}"
        if becomes(whole, reference, *candidates):
            return whole
    return None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _usual(reference: Variable, use: str) -> tuple[str, ...]:
    ops, rank = reference.use or "", len(reference.shape)
    if not use.startswith(("Linear", "Conv")):
        return (
            _BY_RANK.get(rank, ("identity",)) if not use and len(_without_ones(reference.shape)) > 1 else ("identity",)
        )
    if rank == 4 and "Conv2DBackpropInput" in ops:
        return ("hwoi_to_iohw",)
    if rank == 4:
        return ("hwcm_to_depthwise",) if "DepthwiseConv2dNative" in ops else ("hwio_to_oihw",)
    return _BY_RANK.get(rank, ("identity",))[1:] or ("identity",)


@lru_cache(maxsize=4096)
def _shapes(text: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    try:
        return parse_transform(text).shapes(shape)
    except MappingError:
        return None


def _possible(reference: Variable, candidate: Variable) -> tuple[str, ...]:
    if reference.use and reference.use == candidate.use:
        return ("identity",)
    ops = (reference.use or "").split("+")
    by_use = {_BY_USE[(candidate.use or "", op)] for op in ops if (candidate.use or "", op) in _BY_USE}
    # Tied weights are both looked up and multiplied; then no single use speaks for the layout.
    tied = any("Gather" in op for op in ops) and any("MatMul" in op for op in ops)
    if len(by_use) == 1 and not tied and any(becomes(text, reference, candidate) for text in by_use):
        return tuple(by_use)
    rank = len(reference.shape)
    if rank == 4 and "Conv2DBackpropInput" in ops:
        return ("identity", "hwoi_to_iohw")
    return _BY_RANK.get(rank, ("identity",))
