"""What gradients say of a pair that may be meant."""

from collections.abc import Mapping as Map

import numpy as np

from parity.mapping.transforms import Array, parse_transform
from parity.mapping.units import Unit
from parity.mapping.variable import Variable

EMPTY = 1e-12
SAMPLE = 16384
ALONG = 5e-4  # said of gradients of which one is a multiple of the other: near, and yet not verified
PARALLEL = 1e-9
TELLING = 4  # elements from which on that is no chance


class Gradients:
    """Measures how far apart the gradients of two sides are that started from one state.

    Args:
      reference: the reference's name to its gradient; of a statistic, to what the step made of it.
      candidate: the same of the candidate's.
      tolerance: what is at most so far apart is called equal.
    """

    def __init__(self, reference: Map[str, Array], candidate: Map[str, Array], tolerance: float = 0.0) -> None:
        self._reference, self._candidate, self._tolerance = reference, candidate, tolerance
        self._scale = max((_size(value) for value in reference.values()), default=0.0)
        self._known: dict[tuple[str, Unit, str], float | None] = {}

    def __call__(self, reference: Variable, unit: Unit, text: str) -> float | None:
        """Returns 0 where a transform makes one gradient of the other, to 1 where nothing is in common; None unknown."""
        key = (reference.name, unit, text)
        if key not in self._known:
            self._known[key] = self._apart(reference, unit, text)
        return self._known[key]

    def _apart(self, reference: Variable, unit: Unit, text: str) -> float | None:
        held = [(name, np.asarray(self._candidate[name], np.float64)) for name in unit.names if name in self._candidate]
        if reference.name not in self._reference or not held:
            return None
        wanted = np.asarray(self._reference[reference.name], np.float64)
        made = dict(zip(unit.names, parse_transform(text).forward(wanted, linear=True), strict=True))
        one = _sample(np.concatenate([made[name].reshape(-1) for name, _ in held]))
        other = _sample(np.concatenate([_block(value, unit).reshape(-1) for _, value in held]))
        if one.shape != other.shape or not (np.isfinite(one).all() and np.isfinite(other).all()):
            return None
        if max(_size(one), _size(other)) <= EMPTY * self._scale:
            return None
        apart = min(1.0, float(np.linalg.norm(one - other)) / float(np.linalg.norm(one) + np.linalg.norm(other)))
        if apart > max(self._tolerance, ALONG) and _along(one, other):
            return ALONG
        return apart if apart > self._tolerance else 0.0


def _along(one: Array, other: Array) -> bool:
    """Whether one gradient is the other's multiple, as all are where a bug is in what the loss is multiplied by."""
    if one.size < TELLING or not one.any():
        return False
    factor = float(one @ other) / float(one @ one)
    return bool(factor > 0 and np.linalg.norm(factor * one - other) <= PARALLEL * np.linalg.norm(other))


def _block(value: Array, unit: Unit) -> Array:
    if unit.rows is None:
        return value
    index, count = unit.rows
    size = value.shape[0] // count
    return value[index * size : (index + 1) * size]


def _sample(values: Array) -> Array:
    # A step that has no divisor in common with the sizes of axes, so that no column is left out.
    return values if values.size <= SAMPLE else values[:: values.size // SAMPLE | 1]


def _size(values: Array) -> float:
    return float(np.abs(values).max()) if values.size else 0.0
