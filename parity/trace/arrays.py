"""What arrays are called in annotations (Python 3.7 and up)."""

from typing import Any, Dict

import numpy as np

try:  # a runtime alias and no string, so that other aliases may be made of it
    Array = np.ndarray[Any, Any]
except TypeError:  # numpy before 1.22, the last for Python 3.7 is 1.21: ndarray takes no parameters there
    Array = np.ndarray  # type: ignore[misc]

Tensors = Dict[str, Array]
