"""Ops that only arrange what they take, learned from one call: which number of the output is which of the input."""

from collections.abc import Iterator

import numpy as np

from parity.trace.arrays import Array

# What picks, cuts, repeats or lays out anew, by `op_table.plain`: no number of the output is computed.
REARRANGING = frozenset([
    "stridedslice", "slice", "getitem", "split", "splitv", "chunk", "unpack", "unstack", "unbind", "select",
    "narrow", "expand", "expand_as", "expandas", "tile", "repeat", "broadcastto", "transpose", "permute", "t",
    "flip", "reversev2", "reverse", "roll", "reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze",
    "expanddims", "swapaxes", "movedim", "contiguous", "identity", "clone", "detach", "gathernd", "index_select",
    "take", "split_with_sizes", "depthtospace", "spacetodepth", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "batchtospacend", "upsample_nearest1d", "upsample_nearest2d", "resizenearestneighbor",
])  # fmt: skip
# What only lays out anew, all numbers in the order that they had or along other axes.
LAYOUTS = frozenset([
    "reshape", "view", "transpose", "permute", "expanddims", "squeeze", "unsqueeze", "identity", "cast", "flatten",
])  # fmt: skip
CONCATENATING = frozenset(["concat", "concatv2", "concatenate", "cat", "pack", "stack"])
GRAPH_PADDING = frozenset(["pad", "padv2", "mirrorpad"])


def places_of(given: Array, output: Array) -> Array | None:
    """Returns which number of an input each number of an output is, None where that cannot be told.

    Args:
      given: what an op takes; all its numbers have to differ, but where one stretch of an axis is taken.
      output: what it gives.

    Returns:
      Array of the output's shape: indices into the flattened input.
    """
    stretches = list(_stretches(given, output))
    if len(stretches) == 1:
        return stretches[0]
    flat = np.asarray(given).reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    # Where two numbers are equal, as the zeros behind a ReLU, which of them it is cannot be told.
    if not flat.size or (ordered[1:] == ordered[:-1]).any():
        return None
    found = np.searchsorted(ordered, output)
    found = np.minimum(found, flat.size - 1)
    return np.asarray(order[found]) if (ordered[found] == output).all() else None


def _stretches(given: Array, output: Array) -> Iterator[Array]:
    """Yields the places of every stretch of an axis that an output is, or of one place along it."""
    numbers = np.arange(given.size).reshape(given.shape)
    for axis in range(given.ndim):
        around = given.shape[:axis] + given.shape[axis + 1 :]
        if output.shape == around:
            count = 1
        elif output.ndim == given.ndim and output.shape[:axis] + output.shape[axis + 1 :] == around:
            count = output.shape[axis]
        else:
            continue
        for start in range(given.shape[axis] - count + 1) if count < given.shape[axis] else ():
            places = numbers.take(range(start, start + count), axis).reshape(output.shape)
            if np.array_equal(given.reshape(-1)[places], output):
                yield places
