"""What arrays are called in annotations, and rows of a sparse one as a dense one (Python 3.7 and up)."""

from typing import Any, Dict, Sequence

import numpy as np

from parity.trace.errors import TraceError

try:  # a runtime alias and no string, so that other aliases may be made of it
    Array = np.ndarray[Any, Any]
except TypeError:  # numpy before 1.22, the last for Python 3.7 is 1.21: ndarray takes no parameters there
    Array = np.ndarray  # type: ignore[misc]

Tensors = Dict[str, Array]


def dense_rows(values: Array, indices: Array, shape: Sequence[int]) -> Array:
    """Returns a table that has the rows of a sparse gradient and zeros elsewhere; a row that is there twice is added up.

    Args:
      values: array (rows looked up, ...).
      indices: int array (rows looked up,), the place of each row in the table.
      shape: that of the table.

    Raises:
      TraceError: they are no rows of such a table, or there is no room for it.
    """
    shape = tuple(shape)
    fits = shape[1:] == values.shape[1:] and values.ndim and indices.shape == values.shape[:1]
    # As integers, for a place that is no whole number is none; a place behind the table's end would be another's row.
    if not fits or indices.dtype.kind not in "iu" or np.any(indices < 0) or np.any(indices >= shape[0]):
        raise TraceError(
            f"trace: expected rows that a table {list(shape)[:9]} has, got values {list(values.shape)} for the places "
            f"{list(indices.shape)} of {indices.dtype}. Record it again."
        )
    try:
        table: Array = np.zeros(shape, values.dtype)
    except (MemoryError, ValueError):
        raise TraceError(
            f"trace: expected a table that fits into memory, got {list(shape)}. Record it again."
        ) from None
    # Not table[indices] += values, which would count a row that is there twice once.
    np.add.at(table, indices, values)
    return table
