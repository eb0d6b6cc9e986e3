"""Predicts how long a case takes and how many bytes, from the number of its weights and from single steps that are timed."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from parity.case import Case, as_declared
from parity.experiment.prepare import prepare_both
from parity.experiment.recording import Setup
from parity.experiment.runs import EVERYTHING, PERTURBED_RUNS, REPEATED, REPLICAS, drawn_steps
from parity.experiment.sides.tensorflow_side import TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import Progress, RunSpec, silent
from parity.experiment.stepwise.sizes import Sizes, all_runs, step_by_step
from parity.trace import Trace
from parity.worker.launch import Sides
from parity.worker.reaper import temporary_folder


class Forecast(NamedTuple):
    """What `parity run` of a case will take at levels 1 and 2, as a prediction.

    Fields:
      weights: elements of what is trained.
      steps: to be made.
      seconds: from beginning to end, both frameworks' start included.
      kept: bytes on disk where all runs are kept.
      removed: the most bytes at a time where steps are judged one by one.
    """

    weights: int
    steps: int
    seconds: float
    kept: int
    removed: int

    def sentence(self, budget: int) -> str:
        """Returns all of it in words, and which of the two a run will do with so many bytes."""
        how = "keeps its runs" if self.kept <= budget else "is judged step by step"
        return (
            f"predicted: {self.weights:,} weights, {self.steps} steps, levels 1 and 2: about {self.seconds:.0f} s; on disk "
            f"{self.kept / 1e9:.3g} GB if all runs are kept, {self.removed / 1e9:.3g} GB step by step. It {how} (--budget "
            f"{budget / 1e9:g}GB)"
        )


def forecast(case: Case, sides: Sides, tick: Progress = silent) -> Forecast:
    """Returns a prediction, for which one step in float32 is made twice on each side and timed the second time.

    Args:
      case: a validated case.
      sides: started processes.
      tick: told how far it is.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables do not join.
    """
    begin = time.monotonic()
    with temporary_folder(prefix="parity-doctor-") as folder:
        out = Path(folder)
        reference = TensorFlowSide(as_declared(case), sides, out / "tf", tick)
        candidate = TorchSide(case, sides, out / "torch", tick)
        prepared = prepare_both(case, reference, candidate, out, tick)
        started = time.monotonic() - begin
        slower = max(_seconds(prepared.playing, of_tf) * _steps(case.steps, of_tf) for of_tf in (True, False))
    sizes: Sizes = prepared.sizes
    return Forecast(
        sizes.weights,
        case.steps,
        started + slower,
        all_runs(sizes, case.steps, float32=True),
        step_by_step(sizes, case.steps, keep=False),
    )


def _seconds(playing: Setup, of_tf: bool) -> float:
    place = 0 if of_tf else 1
    asked = RunSpec(
        "timed",
        "float32",
        playing.feeds[place],
        playing.start[place],
        None,
        EVERYTHING,
        playing.steps[:1],
        initial=False,
    )
    run: Callable[[RunSpec], Future[Trace]] = playing.tf.run if of_tf else playing.torch.run
    run(asked).result()  # it prepares what the first step of a run prepares
    begin = time.monotonic()
    run(asked).result()
    return time.monotonic() - begin


def _steps(steps: int, of_tf: bool) -> int:
    # In float32: trajectory or lockstep, repeated steps and draws. In float64, which takes twice as long: lockstep, and free
    # runs, of the reference with its replicas.
    single = steps + min(REPEATED, steps) + 2 * PERTURBED_RUNS * len(drawn_steps(range(steps)))
    return single + 2 * steps * (2 + (REPLICAS if of_tf else 0))
