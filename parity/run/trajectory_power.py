"""The power of level 3: how small a bug in the port itself its envelope would have shown, measured by planting some."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parity.case import Case
from parity.case.declared import times
from parity.judge.levels.trajectory import LIMIT, Trajectories, stray_of_candidate
from parity.mapping.trace_map import Join
from parity.run.recorded import Playing
from parity.run.trajectory import follow_again
from parity.trace import Trace
from parity.worker.failures import SideFailed


class Grown(NamedTuple):
    """A bug to plant, in growing sizes.

    Fields:
      mutation: its name in `torch_ddp.planted.MUTATIONS`.
      sizes: what it is off by, the smallest first.
      words: what it is; "{}" stands for the size in percent.
      statistics: whether the net must keep moving statistics.
      of_the_optimizer: whether the port has to bring its own optimizer for it.
    """

    mutation: str
    sizes: tuple[float, ...]
    words: str
    statistics: bool = False
    of_the_optimizer: bool = False


class Seen(NamedTuple):
    """What became of a planted bug.

    Fields:
      words: what it is.
      stray: its statistic, to be held against `LIMIT`.
      seen: whether the level would have called it different.
    """

    words: str
    stray: float
    seen: bool


GROWN = (
    Grown("another_learning_rate", (0.01, 0.02, 0.05), "a learning rate off by {}", of_the_optimizer=True),
    Grown("gradients_travel_in_float16", (1.0,), "gradients reduced in float16"),
    Grown("statistics_never_move", (1.0,), "stale moving statistics", statistics=True),
)


def measure_power(
    case: Case,
    playing: Playing,
    join: Join,
    reference: Trace,
    trajectories: Trajectories,
    grown: Sequence[Grown] = GROWN,
) -> list[Seen]:
    """Plants each bug in the candidate, the smallest size first, until the level sees it.

    Args:
      case: one whose level 3 is same.
      playing: the sides, and what they are fed.
      join: names and layouts.
      reference: the unperturbed float32 run of the reference.
      trajectories: what was recorded of the right port.
      grown: what to plant.

    Returns:
      What became of each bug that the port can have and can carry.
    """
    statistics = any(spot.key.startswith("stat/") for spot in trajectories.spots)
    found = []
    for bug in grown:
        if bug.statistics and not statistics:
            continue
        for size in bug.sizes:
            out = playing.out / "planted" / f"{bug.mutation}-{size:g}"
            role = playing.torch.playing(_with_bug(case, bug, size, out), out / "torch")
            try:
                there, wandering = follow_again(playing._replace(torch=role), join, reference, trajectories.spots)
            except SideFailed:
                break  # a port that cannot carry this bug says nothing about the verdict
            finally:
                shutil.rmtree(out, ignore_errors=True)
            stray = stray_of_candidate(trajectories._replace(candidate=there, wandering=wandering))
            seen = Seen(bug.words.format(f"{size:.0%}"), stray, not stray <= LIMIT)
            if seen.seen or size == bug.sizes[-1]:
                found.append(seen)
                break
    playing.torch.forget()
    return found


def _with_bug(case: Case, bug: Grown, size: float, out: Path) -> Case:
    # Lazily: planting brings `run_case` along, which brings this.
    from parity.prove.planting import Planted, plant

    own = case.torch.optimizer or case.torch.scheduler
    if bug.of_the_optimizer and not own and case.optimizer is not None:
        rate = times(case.optimizer.learning_rate, 1.0 + size)
        return case.model_copy(update={"optimizer": case.optimizer.model_copy(update={"learning_rate": rate})})
    return plant(case, Planted(bug.mutation, size), out / "port" / case.directory.name, bug.of_the_optimizer)
