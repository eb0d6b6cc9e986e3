"""The pass of free runs: the reference's as a whole, its replicas as distances from it, the candidate's step by step."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from parity.experiment.runs import FREE_RUN_QUANTITIES, replicas
from parity.experiment.spec import RunSpec
from parity.experiment.stepwise.lockstep import part_of
from parity.experiment.stepwise.on_demand import remove
from parity.experiment.stepwise.stage import Stage
from parity.judge.levels.function import judge_free
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.trace import TensorFile, Trace
from parity.trace.arrays import Array
from parity.trace.keys import ROW_VALUES


def free_specs(stage: Stage) -> dict[str, RunSpec]:
    """Returns both sides' free runs, by their names in `Stage.runs`."""
    playing = stage.playing
    quantities = FREE_RUN_QUANTITIES + playing.inference
    tf = RunSpec("free", "float64", playing.feeds.tf, playing.start.tf, None, quantities, playing.steps)
    return {"reference": tf, "candidate": tf._replace(feeds=playing.feeds.torch, start=playing.start.torch)}


def judge_freely(stage: Stage, lockstep: Sequence[Check]) -> list[Check]:
    """Makes, judges and removes the free runs; returns the checks of level 1, in execution order.

    Args:
      stage: of the recording.
      lockstep: checks of level 1 that say what each step rounds by itself.
    """
    playing, specs = stage.playing, free_specs(stage)
    stage.write_start()
    whole = playing.tf.run(specs["reference"])
    candidate = SteppedTrace(
        lambda step: playing.torch.run(part_of(stage, specs["candidate"], step)).result(),
        stage.runs["candidate_free"].take,
    )
    candidate.step(playing.steps[0])  # beside the reference's, and no further: each step is as large as a trace's
    reference = whole.result()
    from_it = [each._replace(measured_from=Path(reference.directory)) for each in replicas(playing, specs["reference"])]
    measured = [run.result() for run in [playing.tf.run(each) for each in from_it]]
    spread = MeasuredReplicas(reference, measured)
    checks = judge_free(stage.join, reference, candidate, spread, lockstep)
    stage.runs["reference_free"].take(reference)
    candidate.end()
    remove(reference)
    stage.drop_start()
    return checks


class SteppedTrace(Trace):
    """A run that is made a step further when the step is asked for; what was there before goes.

    Args:
      make: makes a step, behind the one that it has made before.
      taken: told of what was made.
    """

    def __init__(self, make: Callable[[int], Trace], taken: Callable[[Trace], None]) -> None:
        self._make, self._taken = make, taken
        self._last: tuple[int, Trace] | None = None
        self.facts, self.variables = {}, {}

    def step(self, number: int) -> TensorFile:
        """Returns the quantities of a step: the one that it has made last, or the next."""
        if self._last is None or self._last[0] != number:
            self.end()
            made = self._make(number)
            self._last = number, made
            self.facts, self.variables = made.facts, made.variables
            self._taken(made)
        return self._last[1].step(number)

    def end(self) -> None:
        """Removes what it has made last."""
        if self._last is not None:
            remove(self._last[1])
            self._last = None


class MeasuredReplicas:
    """Reads how far replicas are from their run, as each has measured it.

    Args:
      reference: the run.
      measured: of each replica a trace of distances.
    """

    def __init__(self, reference: Trace, measured: Sequence[Trace]) -> None:
        starts = [each.init() for each in measured]
        moved = [norm(np.array([float(start.read(text)) for text in start.names("var")])) for start in starts]
        # The least of them, as `Replicas` has it.
        self.ulp = min(moved, default=0.0)
        self._measured = measured
        self._step: int | None = None
        self._files: list[TensorFile] = []

    def at(self, step: int, text: str, reference: Array) -> float:
        """Returns the largest distance of a replica from the run."""
        if step != self._step:
            self._step, self._files = step, [each.step(step) for each in self._measured]
        return max((drawn_distance(file, text, reference) for file in self._files), default=0.0)


def drawn_distance(file: TensorFile, text: str, reference: Array | TensorFile) -> float:
    """Returns the distance of one tensor of a run that has measured itself; of a sparse gradient by its rows.

    Args:
      file: of distances.
      text: trace name.
      reference: what it was measured from: the tensor, or a file that has it.
    """
    value = file.read(text)
    if not is_sparse(file, text):
        return float(value)
    return distance(value, reference.read(text) if isinstance(reference, TensorFile) else reference)


def is_sparse(file: TensorFile, text: str) -> bool:
    """Returns whether a file shows as dense what it holds as rows."""
    raw = getattr(file, "_file", file)
    return text + ROW_VALUES in raw
