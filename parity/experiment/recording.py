"""What a recording holds: where it begins, who plays it, and all that was recorded in the end."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from parity.experiment.rejudge.races import Races
from parity.experiment.sides.tensorflow_side import ReferenceSide
from parity.experiment.sides.torch_side import TorchSide
from parity.judge.levels.float32 import Accuracy
from parity.judge.levels.function import Lockstep
from parity.judge.port_values import Written
from parity.judge.repeatability import Repeat
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import Trace


class SidePaths(NamedTuple):
    """A folder for each side, which holds the same in each side's own names and layouts."""

    tf: Path
    torch: Path


class Begun(NamedTuple):
    """What a recording begins with.

    Fields:
      join: names and layouts of both sides.
      pairs: the mapping, as text.
      reference: its float32 trajectory, under way.
    """

    join: Join
    pairs: list[tuple[str, str, str, str]]
    reference: "Future[Trace]"


class Setup(NamedTuple):
    """The two sides of a case that is under way, and what they are fed.

    Fields:
      tf, torch: the roles.
      feeds: a trace for each whose step k holds the batch of step k.
      start: a trace for each whose init holds the state before the first step.
      steps: the steps to make.
      shards: contiguous pieces of a batch within which the order of the examples does not matter.
      out: folder for further feeds and states.
      inputs: dict of input name to dtype and shape, as the graph is built for them.
      inference: the quantity that an inference is recorded as, or nothing where the tower has none.
      uneven: what happens to a batch that does not divide: "refuse", "drop", "pad" or "sizes".
      racing: the trace names of the statistics and averages that the reference writes in no order.
    """

    tf: ReferenceSide
    torch: TorchSide
    feeds: SidePaths
    start: SidePaths
    steps: list[int]
    shards: int
    out: Path
    inputs: Any
    inference: tuple[str, ...]
    uneven: str
    racing: frozenset[str]


class Measured(NamedTuple):
    """What was judged step by step while a case was recorded, whose tensors are gone.

    Fields:
      function: checks of level 1 in execution order, nothing of them judged again.
      float32: checks of level 2, likewise.
      accuracy: of both sides beside each other.
      repeats: each side against itself.
      moved: trace names of the gradients that were not zero in some step.
    """

    function: list[Check]
    float32: list[Check]
    accuracy: Accuracy
    repeats: list[Repeat]
    moved: frozenset[str]


@dataclass
class Recorded:
    """Everything that was recorded of a case.

    Attributes:
      join: names and layouts of both sides.
      lockstep: the traces made from the same states.
      start: the state that everything starts from, in the reference's names.
      initial_slots: what each side's optimizer itself puts into its slots, reference and candidate: dict of trace name to
        the smallest and the largest element.
      written: buffers and constants of the port that are overwritten, with what each side itself starts them at.
      reference_free, candidate_free: float64 runs that nobody reset.
      replicas: float64 runs of the reference started one ulp away.
      reference_draws, candidate_draws: float32 steps under perturbation.
      pairs: the mapping, as text.
      races: None where nothing of the reference races.
      notes: what the report is to say of how it was recorded.
      repeats: by side, its float32 lockstep's first steps once more; no reference's where a golden trace stands for it.
      quick: whether only lockstep was made: what stands for free runs is that, and is not judged as such.
      measured: what was judged on the way, where no run was kept: traces then make a step again when it is read.
    """

    join: Join
    start: Trace
    lockstep: Lockstep
    reference_free: Trace
    candidate_free: Trace
    initial_slots: tuple[dict[str, list[float]], dict[str, list[float]]]
    replicas: list[Trace] = field(default_factory=list)
    reference_draws: list[Trace] = field(default_factory=list)
    candidate_draws: list[Trace] = field(default_factory=list)
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    races: Races | None = None
    notes: list[str] = field(default_factory=list)
    repeats: dict[str, Trace] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)
    measured: Measured | None = None
    quick: bool = False
