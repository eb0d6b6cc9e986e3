"""Infers from numbers how the gradients of the ranks were combined."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from parity.trace import parse_key, select
from parity.trace.arrays import Array

# Sum and mean of two towers are a factor of two from each other; float16 rounds each gradient by 2^-11, half of this limit.
SAME_COMBINATION = 1e-3


def combination_of(tensors: Mapping[str, Any], ranks: int) -> str:
    """Returns "mean", "sum", "none" (a rank keeps its own), "one rank's", "other", or "unknown".

    Args:
      tensors: dict of trace name without section to array, of one step, all ranks.
      ranks: number of ranks.
    """
    kinds = {
        kind
        for name, combined in _by_variable(tensors).items()
        for kind in [_kind(local_gradients(tensors, name, ranks), combined)]
        if kind
    }
    if not kinds:
        return "unknown"
    return kinds.pop() if len(kinds) == 1 else "other"


def local_gradients(tensors: Mapping[str, Any], name: str, ranks: int) -> "list[Array | None]":
    """Returns each rank's own gradient of a variable, its micro-batches added up, in float64; None where it has none."""
    found: list[Array | None] = [None] * ranks
    for text in select(tensors, "tower_grad"):
        key = parse_key(text)
        if key.name == name:
            rank = int(key.tower.partition(".")[0])
            value = np.asarray(tensors[text], np.float64)
            own = found[rank]
            found[rank] = value if own is None else own + value
    return found


def _kind(local: "list[Array | None]", combined: Array) -> str:
    if len(local) < 2 or any(each is None or each.shape != combined.shape for each in local):
        return ""
    parts = [np.asarray(each, np.float64) for each in local]
    total = np.sum(parts, axis=0)
    candidates = {"mean": total / len(parts), "sum": total, "none": parts[0], "one rank's": parts[-1]}
    scale = float(np.linalg.norm(combined))
    if not scale or not np.isfinite(scale):
        return ""
    distances = {kind: float(np.linalg.norm(combined - value)) / scale for kind, value in candidates.items()}
    best = min(distances, key=lambda kind: distances[kind])
    # Ranks that see the same data have one gradient, by which nothing can be told.
    if distances["mean"] < SAME_COMBINATION and distances["none"] < SAME_COMBINATION:
        return ""
    return best if distances[best] < SAME_COMBINATION else "other"


def _by_variable(tensors: Mapping[str, Any]) -> dict[str, Array]:
    return {parse_key(text).name: np.asarray(value, np.float64) for text, value in select(tensors, "grad").items()}
