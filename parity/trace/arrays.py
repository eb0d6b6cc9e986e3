"""What arrays are called in annotations (Python 3.7 and up)."""

from typing import Any, Dict

import numpy as np

try:
    Array = np.ndarray[Any, Any]
except TypeError:  # Python 3.7's numpy
    Array = np.ndarray  # type: ignore[misc]

Tensors = Dict[str, Array]
