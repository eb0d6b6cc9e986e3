"""What is asked of a side: one run of a case, and who is told how far it is."""

import enum
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from parity.experiment.sides.densify import DenseTrace, PartTrace
from parity.trace import Perturbation, Trace

Progress = Callable[[str, int, int], None]
# Names of runs are folders of traces, and how a golden trace finds what it kept.
REPETITION = "again"
MAPPING = "mapping"
FORWARD = "forward"
BACKWARD = "backward"


class Capability(enum.Flag):
    """What not every side can do.

    RERUN: runs, evaluations and forward passes that were not recorded, from any state on any batch.
    """

    NONE = 0
    RERUN = enum.auto()


class Side(Protocol):
    """What answers requests: a process of its own, or a program that is launched for each."""

    def ask(
        self, request: str, on_progress: Callable[[int, int], None] | None = None, **arguments: Any
    ) -> "Future[Any]":
        """Sends a request; the future gives the answer, or raises `SideFailed`."""


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


class RunSpec(NamedTuple):
    """One run of a side.

    Fields:
      name: of the run, and of its trace's folder.
      precision: "float32" or "float64".
      feeds: trace whose step k holds the batch of step k.
      start: trace whose init holds the state before the first step.
      follow: trace whose step k holds the state before step k, for lockstep; None for a free run.
      quantities: what to record.
      steps: the steps to make.
      recorded_counters: whether step count and learning rate are taken from `follow` too, for steps out of order.
      mixed: whether the candidate runs at the case's `opt_level`; its precision is then that of what it is given.
      noise: unit roundoff and seed of roundings that the candidate adds to its products.
      cut: whether no gradient passes the outputs that `follow` gives.
      evaluation: how to evaluate where that is recorded: "eval" mode, "train" mode, or after "other draws".
      random_seed: of the candidate's random generators, set before the first step; None leaves them as they are.
      uncut: names of the places at which the candidate lets gradients pass that it keeps from passing; None where nobody
        looks for such places.
      detached: edges of the candidate's forward pass that no gradient passes, see `torch_ddp.step.activation_patching`.
      whole: name of the run of all steps that this one is a part of, where there is such a one.
      perturbations: of batches, and of the states that steps start from (`follow`, or else `start`), which the worker
        applies, in their order.
      partly: whether `start` lacks slots and counters, which then stay as the candidate's optimizer made them.
      resumed: whether it goes on where the last run of this side in this precision ended, and loads no `start`.
      written: numbers of the steps whose tensors are written; None for all.
      measured_from: a trace: written are only distances from it, see `parity.trace.RunWriter`.
      initial: whether the state before the first step is written.
    """

    name: str
    precision: str
    feeds: Path
    start: Path
    follow: Path | None
    quantities: tuple[str, ...]
    steps: Sequence[int]
    recorded_counters: bool = False
    mixed: bool = False
    noise: tuple[float, int] | None = None
    cut: bool = False
    evaluation: str = "eval"
    random_seed: int | None = None
    uncut: Sequence[str] | None = None
    detached: Sequence[tuple[int, int | str]] = ()
    whole: str = ""
    partly: bool = False
    perturbations: tuple[Perturbation, ...] = ()
    resumed: bool = False
    written: Sequence[int] | None = None
    measured_from: Path | None = None
    initial: bool = True


def start_run(side: Side, tick: Progress, what: str, asked: RunSpec, out: Path, **own: Any) -> "Future[Trace]":
    """Starts a run of a side; answers with its trace.

    Args:
      side: plays it.
      tick: told how far it is.
      what: names the run there.
      asked: the run.
      out: folder for its trace.
      own: what this side alone is told.
    """
    message = {
        "feeds": str(asked.feeds),
        "start": str(asked.start),
        # Paths and plain numbers alone: the other end is a Python 3.7 that knows none of our types.
        "follow": str(asked.follow) if asked.follow else None,
        "recorded_counters": asked.recorded_counters,
        "steps": list(asked.steps),
        "quantities": asked.quantities,
        "evaluation": asked.evaluation,
        "out": str(out),
        **({"cut": True} if asked.cut else {}),
        **({"partly": True} if asked.partly else {}),
        **({"perturbations": [each._asdict() for each in asked.perturbations]} if asked.perturbations else {}),
        **({"random_seed": asked.random_seed} if asked.random_seed is not None else {}),
        **({"detached": [list(edge) for edge in asked.detached]} if asked.detached else {}),
        **({"resumed": True} if asked.resumed else {}),
        **({"written": list(asked.written)} if asked.written is not None else {}),
        **({"measured_from": str(asked.measured_from)} if asked.measured_from else {}),
        **({} if asked.initial else {"initial": False}),
        **({"uncut": list(asked.uncut)} if asked.uncut is not None else {}),
        **own,
    }
    opened = DenseTrace if asked.initial and asked.measured_from is None else PartTrace
    # Of single steps the one who asked for them says how far they are.
    on_progress = progress_for(tick, what) if asked.initial else None
    return map_future(side.ask("run", on_progress, **message), lambda _: opened(out))


def start_forward(side: Side, asked: RunSpec, out: Path, step: int, tower: str, **own: Any) -> "Future[Any]":
    """Has a side leave the forward pass of one tower in one step, made from what a run is made from.

    Args:
      side: plays it.
      asked: the run, in lockstep.
      out: folder for what is kept, as `write_forward` leaves it.
      step: its number.
      tower: its name.
      own: what this side alone is told.
    """
    paths: dict[str, Any] = {
        "feeds": str(asked.feeds),
        "start": str(asked.start),
        "follow": str(asked.follow),
        "out": str(out),
    }
    return side.ask("forward", None, **paths, step=step, tower=tower, **own)


def progress_for(tick: Progress, what: str) -> Callable[[int, int], None]:
    """Returns what tells `tick` of `what`: done, total."""
    return lambda done, total: tick(what, done, total)


def map_future(future: "Future[Any]", change: Callable[[Any], Any]) -> "Future[Any]":
    """Returns a future of what `change` makes of an answer; it fails as the answer does, or as the change."""
    # Of its own, for a future has one result: what others wait for stays the answer itself.
    changed: Future[Any] = Future()

    def done(finished: "Future[Any]") -> None:
        try:
            changed.set_result(change(finished.result()))
        # Whatever it was belongs to who waits for the answer: raised here it would end in the thread that reads
        # replies.
        except BaseException as error:
            changed.set_exception(error)

    future.add_done_callback(done)
    return changed


def settings_of(optimizer: Any) -> dict[str, Any]:
    """Returns what a case says of an optimizer, as it is told to a side."""
    return dict(optimizer.model_dump(exclude_none=True))
