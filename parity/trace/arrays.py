"""What arrays are called in annotations, and rows of a sparse one as a dense one (Python 3.7 and up)."""

from typing import Any, Dict, Sequence

import numpy as np

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
    """
    table: Array = np.zeros(tuple(shape), values.dtype)
    # Not table[indices] += values, which would count a row that is there twice once.
    np.add.at(table, indices, values)
    return table
