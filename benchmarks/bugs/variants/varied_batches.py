"""A case's batches, rounded so that many values tie."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

VARIANT = json.loads((Path(__file__).parent / "variant.json").read_text())


def batches(steps: int, batch_size: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields the case's own batches; with ties, floats are rounded to multiples of a half and frames shown twice."""
    module, _, name = VARIANT["batches"].partition(":")
    for batch in getattr(importlib.import_module(module), name)(steps, batch_size, seed):
        yield {name: _tied(name, value) for name, value in batch.items()} if VARIANT["ties"] else batch


def _tied(name: str, value: np.ndarray) -> np.ndarray:
    if name not in ("images", "frames"):
        return value
    rounded = np.round(2 * value) / 2
    if name == "frames":
        rounded[:, 1::2] = rounded[:, : rounded.shape[1] - 1 : 2]
    return rounded.astype(value.dtype)
