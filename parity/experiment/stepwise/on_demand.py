"""Traces whose tensors are gone: what a step held is known by name, and is made again where somebody reads it."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from parity.experiment.spec import RunSpec
from parity.trace import Quantity, TensorFile, TensorKey, Trace, quantity_of
from parity.trace.arrays import Array

# Bytes of a tensor that stays in memory: counters, losses, biases, statistics.
SMALL = 1 << 15
Remake = Callable[[int | None], Trace]


class OnDemandTrace(Trace):
    """A run whose tensors were judged and removed.

    Args:
      remake: returns a trace that holds one step once more, or for None the state before the first.
    """

    def __init__(self, remake: Remake) -> None:
        self._remake = remake
        self._files: dict[int, RemovedFile] = {}
        self.directory = ""
        self.facts, self.variables, self.producer = {}, {}, {}
        self.activations, self.step_numbers = [], []
        self.complete = True

    def take(self, part: Trace) -> None:
        """Takes what is to be known of some steps of the run, before their files go."""
        agree = self.facts.get("ranks_agree", True) and part.facts.get("ranks_agree", True)
        self.directory = part.directory
        self.variables, self.activations, self.producer = part.variables, part.activations, part.producer
        # What a run says of itself in the end is true of all its steps.
        self.facts = {**part.facts, **({"ranks_agree": agree} if "ranks_agree" in part.facts else {})}
        for number in part.step_numbers:
            self._files[number] = RemovedFile(part.step(number), number, self._remake)
        self.step_numbers = sorted(self._files)

    def init(self) -> TensorFile:
        """Returns the state before the first step, made again."""
        return self._remake(None).init()

    def step(self, number: int) -> TensorFile:
        """Returns the quantities of a step; what is large is made again when it is read."""
        return self._files[number]


class RemovedFile(TensorFile):
    """What a file of tensors held: names, shapes and dtypes, small tensors as they were, and large ones on demand.

    Args:
      file: before it is removed.
      number: of its step.
      remake: as of `OnDemandTrace`.
    """

    def __init__(self, file: TensorFile, number: int, remake: Remake) -> None:
        self.path = getattr(file, "path", "")
        self._known: dict[str, tuple[tuple[int, ...], str]] = {
            name: (file.shape(name), file.dtype(name)) for name in file.names()
        }
        self._small: dict[str, Array] = {
            name: np.array(file.read(name))
            for name, (shape, dtype) in self._known.items()
            # bfloat16, which numpy has no type for, has 2 bytes: counted as 4 it is none the less small.
            if int(np.prod(shape, dtype=np.int64)) * (4 if dtype == "bfloat16" else np.dtype(dtype).itemsize) <= SMALL
        }
        self._number, self._remake = number, remake

    def names(self, *quantities: Quantity) -> list[str]:
        """Returns the names, all of them or those of some quantities, in the order of the file."""
        return [name for name in self._known if not quantities or quantity_of(name) in quantities]

    def __contains__(self, name: object) -> bool:
        return str(name) in self._known

    def shape(self, name: str | TensorKey) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return self._known[str(name)][0]

    def dtype(self, name: str | TensorKey) -> str:
        """Returns the dtype of a tensor."""
        return self._known[str(name)][1]

    def read(self, name: str | TensorKey) -> Array:
        """Returns a tensor, out of a run that is made again where it is large."""
        text = str(name)
        return self._small[text] if text in self._small else self._remake(self._number).step(self._number).read(text)


class StatesOnDemand(Trace):
    """The states before each step, which are written when the first of them is read.

    Args:
      steps: numbers.
      write: writes them, once; returns the trace.
    """

    def __init__(self, steps: Sequence[int], write: Callable[[], Trace]) -> None:
        self._write = write
        self.directory, self.complete = "", True
        self.facts, self.variables, self.producer = {}, {}, {}
        self.activations, self.step_numbers = [], list(steps)

    def init(self) -> TensorFile:
        """Returns what the written trace has as its init."""
        return self._write().init()

    def step(self, number: int) -> TensorFile:
        """Returns the state before a step."""
        return self._write().step(number)


class Remaking:
    """Makes single steps of a run again: the run up to that step, of which only it is written. One is there at a time.

    Args:
      run: starts a run.
      whole: the run.
      before: gets ready what it reads.
    """

    def __init__(self, run: Callable[[RunSpec], "Future[Trace]"], whole: RunSpec, before: Callable[[], Any]) -> None:
        self._run, self._whole, self._before = run, whole, before
        self._last: tuple[int | None, Trace] | None = None

    def __call__(self, number: int | None) -> Trace:
        """Returns a trace that holds that step, or for None the state before the first."""
        if self._last is not None:
            if self._last[0] == number:
                return self._last[1]
            remove(self._last[1])
        self._before()
        # From the first step on, in a row, for a port may carry what no state shows.
        steps = [each for each in self._whole.steps if number is not None and each <= number]
        asked = self._whole._replace(name=f"{self._whole.name}-once-more", steps=steps, initial=number is None)
        trace = self._run(asked._replace(written=None if number is None else [number])).result()
        self._last = (number, trace)
        return trace


def remove(trace: Trace) -> None:
    """Removes a trace; arrays that were read of it stay readable."""
    shutil.rmtree(trace.directory, ignore_errors=True)
