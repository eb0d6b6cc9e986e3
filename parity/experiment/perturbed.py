"""Perturbed runs of the candidate: by what the reference is perturbed by, wherever that can be told as data."""

import shutil
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from parity.experiment.recording import Setup
from parity.experiment.spec import RunSpec, map_future
from parity.mapping.states import read_all, translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join
from parity.trace import Perturbation, TensorFile, TensorKey, Trace, perturb
from parity.trace.arrays import Array, Tensors

# Kinds that draw no number for an element: what they do is the same in any names and layouts.
ON_EXAMPLES_ALONE = frozenset(["sample_order"])


def run_candidate(playing: Setup, join: Join, asked: RunSpec, follow: Path | None = None) -> "Future[Trace]":
    """Starts the candidate's counterpart of a perturbed run of the reference: bitwise the same numbers, carried over.

    The order of examples is told as data. Draws for single elements follow the reference's names and layouts, which only
    the mapping knows: these batches and states are written for the run, and removed when it has ended.

    Args:
      playing: the sides, and what they are fed.
      join: names and layouts.
      asked: the run as the reference is asked for it.
      follow: states before each step in the candidate's names, where the reference follows its own.
    """
    own = asked._replace(feeds=playing.feeds.torch, start=playing.start.torch, follow=follow)
    # Nothing is written then: the worker puts each batch in order by itself.
    if all(each.kind in ON_EXAMPLES_ALONE for each in asked.perturbations) and _examples_stay_first(playing, join):
        return playing.torch.run(own)
    folder = playing.out / f"perturbed-{asked.name}"
    future = playing.torch.run(_from_copies(join, asked, own, folder))
    # As soon as the run has ended: 8 draws hold every batch and state of their steps.
    future.add_done_callback(lambda _: shutil.rmtree(folder, ignore_errors=True))
    return map_future(future, lambda trace: trace)  # answers behind that callback: nothing is left then


def _from_copies(join: Join, asked: RunSpec, own: RunSpec, folder: Path) -> RunSpec:
    def moved(file: TensorFile, step: int) -> Tensors:
        return perturb(read_all(file), asked.perturbations, step, asked.precision)

    feeds = Trace(asked.feeds)
    batches = ((n, translated_batch(join, moved(feeds.step(n), n))) for n in asked.steps)
    copied = own._replace(feeds=write_states(folder / "feeds", batches), perturbations=())
    # A free run is perturbed where it starts, a lockstep run before every step.
    if asked.follow is None:
        start = translated(join, moved(Trace(asked.start).init(), 0))
        return copied._replace(start=write_init(folder / "start", start))
    known = Trace(asked.follow)
    states = ((n, translated(join, moved(known.step(n), n))) for n in asked.steps)
    return copied._replace(follow=write_states(folder / "states", states))


def _examples_stay_first(playing: Setup, join: Join) -> bool:
    # An input that is carried to another layout may have its examples along another axis there, e.g. behind time.
    batch = read_all(Trace(playing.feeds.tf).step(playing.steps[0]))
    # Every element holds the number of its example: carried over, axis 0 has to count them still.
    numbered = {text: _numbers(value) for text, value in batch.items()}
    carried = translated_batch(join, numbered).values()
    count = {len(value) for value in numbered.values()}
    return all({len(value)} == count and bool((value == _numbers(value)).all()) for value in carried)


def _numbers(value: Array) -> Array:
    # Every element the number of its example.
    return np.broadcast_to(np.arange(len(value)).reshape(-1, *[1] * (value.ndim - 1)), value.shape)


# What a perturbed run started its steps from, computed once more.


class PerturbedTrace(Trace):
    """A trace of states as a perturbed run started its steps from them; the state of one step at a time is in memory.

    Args:
      directory: the states that nobody perturbed.
      perturbations: of the run.
      precision: of the run.
    """

    def __init__(self, directory: str | Path, perturbations: Iterable[Perturbation], precision: str) -> None:
        super().__init__(directory)
        self._perturbations, self._precision = tuple(perturbations), precision
        self._last: tuple[int, PerturbedFile] | None = None

    def step(self, number: int) -> TensorFile:
        """Returns the state before step `number`."""
        # Tensors of one step are asked for one after the other: it is perturbed once.
        if self._last is None or self._last[0] != number:
            file = super().step(number)
            self._last = (
                number,
                PerturbedFile(file, perturb(read_all(file), self._perturbations, number, self._precision)),
            )
        return self._last[1]


class PerturbedFile(TensorFile):
    """A file of tensors some of which are other ones in memory, of the same names and shapes.

    Args:
      file: as it was written.
      tensors: dict of trace name to array: all of them.
    """

    def __init__(self, file: TensorFile, tensors: Tensors) -> None:
        self._entries, self._tensors = file._entries, tensors

    def dtype(self, name: str | TensorKey) -> str:
        """Returns a tensor's dtype."""
        return str(self._tensors[str(name)].dtype)

    def read(self, name: str | TensorKey) -> Array:
        """Returns a tensor."""
        return self._tensors[str(name)]
