"""Finds the moving averages that a script keeps of its weights."""

from typing import NamedTuple

import numpy as np

from parity.port.tower.ops import FEED, Tensor
from parity.port.tower.reader import Reader
from parity.port.training.patterns import Anything, Kept, Number, matches
from parity.port.training.values import Values, folded
from parity.trace import RecordedGraph, parse_key
from parity.trace.as_written import as_written

_DIFFERENCE = ("Sub", Anything("average"), Anything("variable"))
# ExponentialMovingAverage with num_updates: young averages forget faster.
_COUNT = ("RealDiv", ("Add", 1.0, Anything("count")), ("Add", 10.0, Anything("count")))
_COUNTED = ("Sub", 1.0, ("Minimum", Number("decay"), _COUNT))


class Averages(NamedTuple):
    """Averages of weights.

    Fields:
      variables: names of what is averaged.
      decay: weight of the old average.
      counted: whether the decay is smaller in the first steps, by their number.
    """

    variables: list[str]
    decay: float
    counted: bool


def averages_of(reader: Reader, values: Values, graph: RecordedGraph) -> Averages | str:
    """Returns the averages that a step updates; "" where there are none, or why they cannot be written."""
    kept: dict[str, str] = {parse_key(text).name: op for text, op in graph.variables.items() if _is_average(text)}
    tensors = {name: values.written(op) for name, op in kept.items()}
    updated = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if not updated:
        return ""
    # One rule for all: an average that moves otherwise would need a second object, and a name for it.
    found = {_decay(tensor) for tensor in folded(updated.values())}
    if len(found) != 1 or None in found:
        return "are kept by a rule that is not known, or by different ones"
    ((decay, counted),) = (each for each in found if each is not None)
    return Averages([*updated], decay, counted)


def _is_average(text: str) -> bool:
    return parse_key(text).quantity == "ema"


def _decay(tensor: Tensor) -> tuple[float, bool] | None:
    for weight, counted in ((Number("rest"), False), (_COUNTED, True)):
        for kept in matches(tensor, ("Sub", Anything("average"), ("Mul", _DIFFERENCE, weight))):
            if _is_leaf(kept, "average") and _is_leaf(kept, "variable"):
                number = kept["decay"] if counted else _complement(kept["rest"])
                return (float(number), counted) if isinstance(number, float) else None
    return None


def _complement(rest: "Tensor | float") -> float:
    # The graph has 1 - decay in float32: 0.99999905 less than 0.01 is 0.99.
    return float(as_written(np.float32(1.0 - rest))) if isinstance(rest, float) else 0.0


def _is_leaf(kept: Kept, name: str) -> bool:
    found = kept[name]
    return isinstance(found, Tensor) and found.kind == FEED
