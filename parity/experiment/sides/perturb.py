"""Makes draws of what rounding could have done: one ulp here and there, another order of the examples."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from parity.trace import quantity_of
from parity.trace.arrays import Array, Tensors


def one_ulp(tensors: Mapping[str, Array], seed: int, quantities: frozenset[str]) -> Tensors:
    """Moves every float of the given quantities to a neighbour, up or down at random.

    Args:
      tensors: dict of trace name to array.
      seed: of the draw.
      quantities: those to move, e.g. weights and feeds; the others stay.
    """
    random = np.random.default_rng(seed)
    moved = {}
    for text, value in tensors.items():
        if quantity_of(text) in quantities and value.dtype.kind == "f":
            towards = np.where(random.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
            value = np.nextafter(value, towards)
        moved[text] = value
    return moved


def one_roundoff(tensors: Mapping[str, Array], seed: int, quantities: frozenset[str], unit: float) -> Tensors:
    """Moves every float of the given quantities by a unit roundoff of a narrower type, up or down at random.

    Args:
      tensors: dict of trace name to array.
      seed: of the draw.
      quantities: those to move; the others stay.
      unit: the unit roundoff, e.g. 2^-11 of float16.
    """
    random = np.random.default_rng(seed)
    moved = {}
    for text, value in tensors.items():
        if quantity_of(text) in quantities and value.dtype.kind == "f":
            value = (value * (1 + unit * random.choice([-1.0, 1.0], value.shape))).astype(value.dtype)
        moved[text] = value
    return moved


def reordered(batch: Mapping[str, Array], shards: int, seed: int, uneven: str) -> Tensors:
    """Shuffles the examples within each tower's shard, or each micro-batch of it, all inputs alike.

    Args:
      batch: dict of trace name to array ``[batch, ...]``.
      shards: number of contiguous pieces.
      seed: of the draw.
      uneven: what happens to a batch that does not divide: "refuse", "drop", "pad" or "sizes". What is dropped stays where
        it is, and so does the example that padding repeats.
    """
    random = np.random.default_rng(seed)
    size = len(next(iter(batch.values())))
    pieces = [random.permutation(np.arange(low, high)) for low, high in _bounds(size, shards, uneven)]
    order = np.concatenate([*pieces, np.arange(sum(map(len, pieces)), size)]).astype(int)
    return {text: value[order] for text, value in batch.items()}


def _bounds(size: int, shards: int, uneven: str) -> list[tuple[int, int]]:
    piece, rest = size // shards, size % shards
    if uneven == "sizes":
        starts = [shard * piece + min(shard, rest) for shard in range(shards + 1)]
    elif uneven == "pad" and rest:
        starts = [min(shard * (piece + 1), size - 1) for shard in range(shards + 1)]
    else:
        starts = [shard * piece for shard in range(shards + 1)]
    return list(pairwise(starts))


def as_float64(tensors: Mapping[str, Array]) -> Tensors:
    """Widens every float but the counters, so that an ulp of float64 can be added."""
    return {
        text: value.astype("float64") if value.dtype.kind == "f" and quantity_of(text) != "state" else value
        for text, value in tensors.items()
    }
