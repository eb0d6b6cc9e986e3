"""Tells whether an output that a case declares shows a layer that was found by itself: then it keeps its declared name."""

from collections.abc import Mapping, Sequence

import numpy as np

from parity.locate.layer_names import layer_names
from parity.locate.matching import TOLERANCE, Pass, alike
from parity.locate.search import Location
from parity.trace.arrays import Array


def shows(declared: str, value: Array, place: Location, passed: Pass, variables: Mapping[str, Sequence[int]]) -> bool:
    """Whether no other layer stands between the place of a difference and a declared output behind it.

    Args:
      declared: name of the output.
      value: of the reference.
      place: where the difference begins.
      passed: the reference's pass.
      variables: dict of the reference's variable to its shape.
    """
    if f"{place.layer}/".startswith(f"{declared}/"):
        return True
    start = passed.ops.index(place.op)
    end = _made_by(value, passed, start)
    if end is None:
        return False
    layers = layer_names(variables)
    # Layers whose weights are read on the way, by an order of execution: a branch that is not on it counts too, on the
    # side of caution.
    read = {layers[name] for op in passed.ops[start : end + 1] for name in op.weights if name in layers}
    return all(name == place.layer or f"{name}/".startswith(f"{declared}/") for name in read)


def _made_by(value: Array, passed: Pass, start: int) -> int | None:
    # In whatever order of axes: a declared output may be laid out anew.
    wanted = np.sort(value, axis=None)
    for number in range(start, len(passed.ops)):
        made = passed.value(number)
        if made is not None and made.size == value.size and alike(np.sort(made, axis=None), wanted, TOLERANCE):
            return number
    return None
