"""Writes of a run what is asked for: all of it, single steps, or its distances from another run (Python 3.7 and up)."""

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from parity.trace.arrays import Array, Tensors
from parity.trace.keys import ROW_INDICES, ROW_VALUES
from parity.trace.norms import norm_of_difference
from parity.trace.reader import Trace
from parity.trace.safetensors import TensorFile
from parity.trace.writer import TraceWriter


class RunWriter(object):
    """Leaves what is asked for of a run.

    Args:
      writer: of its trace.
      written: numbers of the steps whose tensors are written; None for all.
      measured_from: a trace of the same steps: written is the distance of each tensor from the one of this name there, a
        float64 number, and nothing of the tensor itself. Sparse gradients are written as they are, for their rows may come
        in any order.
      initial: whether the state before the first step is written.
    """

    def __init__(
        self,
        writer: TraceWriter,
        written: Optional[Sequence[int]] = None,
        measured_from: Optional[Trace] = None,
        initial: bool = True,
    ) -> None:
        self._writer, self._written, self._from, self._initial = writer, written, measured_from, initial

    @classmethod
    def of(cls, writer: TraceWriter, arguments: Mapping[str, Any]) -> "RunWriter":
        """Returns what leaves the part of a run that the arguments of its request ask for."""
        known = arguments.get("measured_from")
        initial = arguments.get("initial", True)
        return cls(writer, arguments.get("written"), Trace(known) if known else None, initial)

    def init(self, tensors: Mapping[str, Any]) -> None:
        """Writes the state before the first step, where it is asked for: dict of trace name to array."""
        if not self._initial:
            self._writer.init({})
        else:
            self._writer.init(tensors if self._from is None else distances(tensors, self._from.init()))

    def step(self, number: int, tensors: Mapping[str, Any]) -> None:
        """Writes a step's quantities, where it is asked for: dict of trace name to array."""
        if self._written is None or number in self._written:
            self._writer.step(number, tensors if self._from is None else distances(tensors, self._from.step(number)))


def distances(tensors: Mapping[str, Any], reference: TensorFile) -> Tensors:
    """Returns the distance of each tensor from another of its name, in float64, infinite where the shapes differ.

    Args:
      tensors: dict of trace name to array; the rows of sparse gradients are returned as they are.
      reference: of the same names; what is not there is left out.
    """
    found = {}
    for name, value in tensors.items():
        if name.endswith((ROW_VALUES, ROW_INDICES)):
            found[name] = np.asarray(value)
        elif name in reference:
            found[name] = np.array(_distance(np.asarray(value), reference.read(name)), np.float64)
    return found


def _distance(one: Array, other: Array) -> float:
    return norm_of_difference(one, other) if one.shape == other.shape else float("inf")
