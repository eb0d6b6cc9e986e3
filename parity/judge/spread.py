"""How far one unit in the last place carries in training that nobody resets: from replicas, or as it was measured."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from parity.judge.metrics import distance, norm
from parity.trace import TensorFile, Trace, TraceError
from parity.trace.arrays import Array


class Spread(Protocol):
    """What is known of runs of the reference that were started one ulp away."""

    @property
    def ulp(self) -> float:
        """The smallest distance by which the weights of such a run were moved; 0 where there is none."""

    def at(self, step: int, text: str, reference: Array) -> float:
        """Returns the largest distance of such a run from the reference in one tensor of one step."""


class Replicas:
    """Measures the spread of the replicas of a run.

    Args:
      reference: the run.
      replicas: of it.
    """

    def __init__(self, reference: Trace, replicas: Sequence[Trace]) -> None:
        self._reference, self._replicas = reference, replicas
        self._step: int | None = None
        self._files: list[TensorFile] = []

    @property
    def ulp(self) -> float:
        """The smallest distance by which the weights of a replica were moved."""
        # The start is where replicas were moved, once; what they do later is how training carries that.
        start = self._reference.init()
        # One length for all weights together, as the amplification of `allowances.free_running` takes it.
        weights = start.names("var")
        moved = [
            # The root of the sum of squares over weights, as one vector of all of them. (weights,)
            norm(np.array([distance(file.read(text), start.read(text)) for text in weights]))
            for file in (replica.init() for replica in self._replicas)
        ]
        # The least of the replicas: dividing by it allows the most, so that a lucky draw calls nobody different.
        return min(moved, default=0.0)

    def at(self, step: int, text: str, reference: Array) -> float:
        """Returns the largest distance of a replica from the run."""
        # Tensors are asked for step by step: files of one step at a time stay open.
        if step != self._step:
            self._step, self._files = step, [replica.step(step) for replica in self._replicas]
        return max((distance(file.read(text), reference) for file in self._files), default=0.0)


class MeasuredSpread:
    """Reads the spread that was measured where the replicas were made.

    Args:
      measured: a trace of distances; its fact `ulp` is the smallest one by which the weights were moved.
      prefix: what names start with in it.
    """

    def __init__(self, measured: Trace, prefix: str = "") -> None:
        self._measured, self._prefix = measured, prefix
        self._step: int | None = None

    @property
    def ulp(self) -> float:
        """The smallest distance by which the weights of a replica were moved."""
        # Measured where the replicas were made: a shadow keeps distances, not the runs themselves.
        moved = self._measured.facts.get("ulp")
        if isinstance(moved, bool) or not isinstance(moved, int | float):
            raise TraceError(
                f"trace: expected {self._measured.directory} to say by how much weights were moved, got no fact 'ulp'. "
                "Make it again."
            )
        return float(moved)

    def at(self, step: int, text: str, reference: Array) -> float:
        """Returns the largest distance of a replica from the run."""
        return self.measured(step, text)

    def measured(self, step: int, text: str) -> float:
        """Returns what was measured of one tensor of one step, 0 where nothing was.

        What no optimizer has by itself has no prefix.
        """
        if step != self._step:
            self._step, self._file = step, self._measured.step(step)
        name = next((name for name in (self._prefix + text, text) if name in self._file), None)
        if name is None:
            return 0.0
        value = self._file.read(name)
        if value.size != 1:
            raise TraceError(
                f"trace: expected one distance, {name}, in {self._file.path}, got {value.size}. Make it anew."
            )
        return float(value.reshape(()))
