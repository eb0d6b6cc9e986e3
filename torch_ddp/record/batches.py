"""Finds the tensors in what a loader yields or a model is called with, and names them by their place."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from torch_ddp.step.trace_names import array


def tensors_in(batch: Any) -> dict[str, np.ndarray]:
    """Returns dict of place, e.g. "0" or "image", to a copy of each tensor or array in a batch."""
    return {place: array(value) if isinstance(value, Tensor) else np.array(value) for place, value in places(batch)}


def places(batch: Any, place: str = "") -> "list[tuple[str, Tensor | np.ndarray]]":
    """Returns the tensors and arrays of numbers in a nested batch, each with its keys and indices."""
    if isinstance(batch, Tensor):
        return [(place or "0", batch)]
    if isinstance(batch, np.ndarray):
        return [(place or "0", batch)] if batch.dtype.kind in "biuf" else []
    items: Any = ()
    if isinstance(batch, Mapping):
        items = batch.items()
    elif isinstance(batch, tuple) and hasattr(batch, "_fields"):
        items = zip(batch._fields, batch, strict=True)
    elif isinstance(batch, list | tuple):
        items = enumerate(batch)
    return [found for key, value in items for found in places(value, f"{place}.{key}" if place else str(key))]
