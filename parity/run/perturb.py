"""Makes draws of what rounding could have done: one ulp here and there, another order of the examples."""

from collections.abc import Mapping

import numpy as np

from parity.judge.numbers import Array

Tensors = dict[str, Array]


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
        if text.split("/", 1)[0] in quantities and value.dtype.kind == "f":
            towards = np.where(random.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
            value = np.nextafter(value, towards)
        moved[text] = value
    return moved


def reordered(batch: Mapping[str, Array], shards: int, seed: int) -> Tensors:
    """Shuffles the examples within each tower's shard, or each micro-batch of it, all inputs alike.

    Args:
      batch: dict of trace name to array ``[batch, ...]``.
      shards: number of contiguous pieces.
      seed: of the draw.
    """
    random = np.random.default_rng(seed)
    size = len(next(iter(batch.values())))
    piece = size // shards
    order = np.concatenate([shard * piece + random.permutation(piece) for shard in range(shards)])
    return {text: value[order] for text, value in batch.items()}


def as_float64(tensors: Mapping[str, Array]) -> Tensors:
    """Widens every float but the counters, so that an ulp of float64 can be added."""
    return {
        text: value.astype("float64") if value.dtype.kind == "f" and not text.startswith("state/") else value
        for text, value in tensors.items()
    }
