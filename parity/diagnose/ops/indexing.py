"""Ops that look up in an array by indices, as functions of arrays."""

from collections.abc import Callable

import numpy as np

from parity.diagnose.ops.arguments import Arguments, Attributes, set_to
from parity.trace.arrays import Array


def _gather(arguments: Arguments, attributes: Attributes) -> Array:
    axis = int(np.asarray(arguments[2])) if len(arguments) > 2 else 0
    if attributes.get("batch_dims", 0):
        raise ValueError("batched")
    return np.take(np.asarray(arguments[0], np.float64), np.asarray(arguments[1]).astype(np.int64), axis)


def _embedding(arguments: Arguments, attributes: Attributes) -> Array:
    return np.asarray(np.asarray(arguments[0], np.float64)[np.asarray(arguments[1]).astype(np.int64)])


def _one_hot(arguments: Arguments, attributes: Attributes) -> Array:
    labels = np.asarray(arguments[0]).astype(np.int64)
    depth = int(np.asarray(set_to("num_classes", "1", arguments, attributes)))
    on, off = (float(np.asarray(arguments[at])) if len(arguments) > at else fill for at, fill in ((2, 1.0), (3, 0.0)))
    return np.where(labels[..., None] == np.arange(depth), on, off)


def _gather_along(arguments: Arguments, attributes: Attributes) -> Array:
    x, axis = np.asarray(arguments[0]), int(np.asarray(set_to("dim", "1", arguments, attributes)))
    indices = np.asarray(set_to("index", "2", arguments, attributes)).astype(np.int64)
    # Indices may be fewer along the other axes: what lies beyond them is not taken.
    taken = tuple(slice(None) if each == axis % x.ndim else slice(size) for each, size in enumerate(indices.shape))
    return np.take_along_axis(x[taken], indices, axis)


INDEXING: dict[str, Callable[[Arguments, Attributes], Array]] = {
    **dict.fromkeys(("gatherv2", "resourcegather"), _gather),
    **dict.fromkeys(("onehot", "one_hot"), _one_hot),
    "embedding": _embedding,
    "gather": _gather_along,
}
