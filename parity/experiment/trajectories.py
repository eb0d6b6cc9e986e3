"""Level 3: records float32 runs that nobody resets, decides them by their envelope, and measures its power."""

import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.case import Case
from parity.case.intended import times
from parity.experiment.perturbed import run_candidate
from parity.experiment.recording import Setup
from parity.experiment.runs import another_order
from parity.experiment.spec import RunSpec
from parity.judge.allowances import TRAJECTORY_LIMIT
from parity.judge.level import first_difference, level_from
from parity.judge.levels.trajectory import (
    FOLLOWED,
    FalseAlarms,
    Spot,
    Trajectories,
    apart,
    false_alarms,
    judge_trajectory,
    spots_of,
    stray_of_candidate,
)
from parity.judge.result import Check, FirstDifference, Level, Verdict, decide
from parity.judge.unmatched_slots import after_the_last, set_aside_slots
from parity.mapping.trace_map import Join
from parity.trace import Perturbation, Trace, quantity_of
from parity.trace.arrays import Array
from parity.worker.failures import SideFailed

# Runs of the reference that make the spread, and as many that count false alarms: with 0 of 20 outside, the rate is
# below 16.8% (95%), which for 5 of 9 is 0.94% of verdicts.
ENVELOPE = 20
HELD_OUT = 20
# With the unperturbed one 9: an odd number, so that the median is a run, and lone branch flips are outvoted.
OF_THE_CANDIDATE = 8
# Two: the one that is measured here, and the one that the side makes meanwhile.
IN_FLIGHT = 2


def record_trajectories(playing: Setup, join: Join, reference: Trace) -> tuple[Trace, Trajectories]:
    """Runs the candidate freely in float32, and both sides again and again with other rounding.

    Each perturbed run starts from weights moved by an ulp of float32, is fed inputs moved by an ulp, and has the examples
    of every shard in another order in every step. A run is measured and removed as soon as it is there.

    Args:
      playing: the sides, and what they are fed.
      join: names and layouts.
      reference: its unperturbed float32 run.

    Returns:
      The candidate's unperturbed run, and how far all of them are apart.

    Raises:
      SideFailed: a side could not do its part.
    """
    candidate = playing.torch.run(_asked(playing, "float32-free", playing.feeds.torch, playing.start.torch)).result()
    # The unperturbed runs say what is followed; all others are measured at the same spots, (spots,) each.
    spots = spots_of(join, reference, candidate, playing.racing)
    draws = range(ENVELOPE + HELD_OUT)
    references = _in_turn(playing.tf.run(_drawn(playing, draw)) for draw in draws)
    candidates = _in_turn(run_candidate(playing, join, _drawn(playing, draw)) for draw in draws[:OF_THE_CANDIDATE])
    found: list[Array] = []
    others = [apart(join, spots, reference, candidate, (False, True))]
    wandering: list[Array] = []
    for one, other in zip_longest(references, candidates):
        found.append(apart(join, spots, reference, one, (False, False)))
        # A trajectory holds every weight at every step: no more than two are on the disk, of 49.
        _remove(one)
        if other is not None:
            others.append(apart(join, spots, reference, other, (False, True)))
            wandering.append(apart(join, spots, candidate, other, (True, True)))
            _remove(other)
    # (20, spots) and (20, spots).
    envelope, held_out = np.array(found[:ENVELOPE]), np.array(found[ENVELOPE:])
    return candidate, Trajectories(spots, envelope, held_out, np.array(others), np.array(wandering))


def follow_again(playing: Setup, join: Join, reference: Trace, spots: list[Spot]) -> tuple[Array, Array]:
    """Runs another candidate alike; returns its distances from the reference and its own wandering."""
    candidate = playing.torch.run(_asked(playing, "float32-free", playing.feeds.torch, playing.start.torch)).result()
    others, wandering = [apart(join, spots, reference, candidate, (False, True))], []
    for other in _in_turn(run_candidate(playing, join, _drawn(playing, draw)) for draw in range(OF_THE_CANDIDATE)):
        others.append(apart(join, spots, reference, other, (False, True)))
        wandering.append(apart(join, spots, candidate, other, (True, True)))
        _remove(other)
    return np.array(others), np.array(wandering)


def _in_turn(started: "Iterator[Future[Trace]]") -> Iterator[Trace]:
    # One run more than is looked at is under way, so that neither the side nor this process waits for the other.
    waiting: deque[Future[Trace]] = deque()
    for each in started:
        waiting.append(each)
        if len(waiting) >= IN_FLIGHT:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _drawn(playing: Setup, draw: int) -> RunSpec:
    """Returns the reference's run of a draw."""
    # Primes apart, so that no draw of one kind repeats the seed of another.
    order = another_order(playing, 7919 * (draw + 1), 104_729)
    moved = Perturbation("ulp", "var", 611_953 + draw), order._replace(kind="ulp", seed=order.seed + 1)
    return _asked(playing, f"drawn-{draw}", playing.feeds.tf, playing.start.tf)._replace(perturbations=(order, *moved))


def _asked(playing: Setup, name: str, feeds: Path, start: Path) -> RunSpec:
    return RunSpec(name, "float32", feeds, start, None, FOLLOWED, playing.steps)


def _remove(trace: Trace) -> None:
    shutil.rmtree(trace.directory, ignore_errors=True)


# The power of level 3: how small a bug in the port itself its envelope would have shown, measured by planting some.


class Grown(NamedTuple):
    """A bug to plant, in growing sizes.

    Fields:
      mutation: its name in `torch_ddp.mutations.MUTATIONS`.
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
      stray: its statistic, to be held against `TRAJECTORY_LIMIT`.
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
    playing: Setup,
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
    statistics = any(quantity_of(spot.key) == "stat" for spot in trajectories.spots)
    found = []
    for bug in grown:
        if bug.statistics and not statistics:
            continue
        # The smallest that is seen is the power; larger ones would be seen too.
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
            seen = Seen(bug.words.format(f"{size:.0%}"), stray, not stray <= TRAJECTORY_LIMIT)
            # Told as not seen only when the largest size was not.
            if seen.seen or size == bug.sizes[-1]:
                found.append(seen)
                break
    # The side's processes hold the planted port now.
    playing.torch.forget()
    return found


def _with_bug(case: Case, bug: Grown, size: float, out: Path) -> Case:
    # Lazily: planting brings `run_case` along, which brings this.
    from parity.experiment.plant import Planted, plant

    own = case.torch.optimizer or case.torch.scheduler
    if bug.of_the_optimizer and not own and case.optimizer is not None:
        rate = times(case.optimizer.learning_rate, 1.0 + size)
        return case.model_copy(update={"optimizer": case.optimizer.model_copy(update={"learning_rate": rate})})
    return plant(case, Planted(bug.mutation, size), out / "port" / case.directory.name, bug.of_the_optimizer)


# Turns recorded trajectories into the verdict of level 3, with its false alarms and its power.

# Above this rate of false verdicts, by what held-out runs did, a difference says nothing about the port.
# 1%, above which the 5-of-9 rule no longer protects: about 17% of single runs outside.
MOST_FALSE_ALARMS = 0.01


def decide_trajectory(case: Case, playing: Setup, join: Join, reference: Trace) -> tuple[Level, Trace]:
    """Records and decides level 3; returns it and the candidate's unperturbed run.

    Args:
      case: what is run.
      playing: the sides, and what they are fed.
      join: names and layouts.
      reference: the reference's unperturbed float32 run.

    Raises:
      SideFailed: a side could not do its part.
    """
    candidate, trajectories = record_trajectories(playing, join, reference)
    runs = (after_the_last(reference), after_the_last(candidate))
    checks = set_aside_slots(judge_trajectory(trajectories), join, *runs)
    racing = ", ".join(sorted(playing.racing))
    notes = [f"not followed, for the reference writes them in no order: {racing}"] if racing else []
    first = first_difference(join, checks, {"free": (reference, candidate)})
    level = level_of(checks, trajectories, first, notes, candidate.facts.get("ranks_agree", True))
    if level.verdict == "same":
        power = measure_power(case, playing, join, reference, trajectories)
        level = level.with_notes(*told(power))
    return level, candidate


def level_of(
    checks: list[Check],
    trajectories: Trajectories,
    first: FirstDifference | None = None,
    notes: Sequence[str] = (),
    ranks_agree: bool = True,
) -> Level:
    """Returns the level without its power: the verdict, what it rests on, and how often it is wrong about right ports."""
    alarms = false_alarms(trajectories)
    stray = stray_of_candidate(trajectories)
    verdict: Verdict = decide(checks)
    reason = (
        f"training deviates {stray:.3g} times as far as rounding does (limit {TRAJECTORY_LIMIT:g}), "
        f"by {len(trajectories.envelope)} perturbed runs over {len(trajectories.spots):,} tensors"
    )
    # Only a difference can be a false alarm: what is the same is so in spite of them.
    if verdict == "different" and alarms.of_verdict > MOST_FALSE_ALARMS:
        verdict = "incomparable"
        reason = (
            f"the reference deviates from itself: {_counted(alarms)}, so that {stray:.3g} is no evidence about the port"
        )
    known = [_told_alarms(alarms, len(trajectories.candidate)), *notes]
    return level_from("trajectory", checks, reason, first=first, notes=known, verdict=verdict, ranks_agree=ranks_agree)


def told(power: Sequence[Seen]) -> list[str]:
    """Returns what the level would have seen of bugs planted in this port, and what not, in words."""
    notes = []
    for seen, words in ((True, "would have seen"), (False, "would not have seen")):
        found = [f"{each.words} ({each.stray:,.0f}, limit {TRAJECTORY_LIMIT:g})" for each in power if each.seen == seen]
        if found:
            notes.append(f"power: {words} {', '.join(found)}")
    return notes


def _told_alarms(alarms: FalseAlarms, runs: int) -> str:
    return (
        f"false alarms: {_counted(alarms)}; the verdict takes the median of {runs} runs, which by that rate calls "
        f"{alarms.of_verdict:.2%} of right ports different (at most {alarms.of_verdict_at_most:.2%})"
    )


def _counted(alarms: FalseAlarms) -> str:
    return (
        f"{alarms.outside} of {alarms.runs} held-out runs of the reference deviate beyond the limit "
        f"({alarms.outside / max(alarms.runs, 1):.0%}, 95% interval {alarms.low:.1%} to {alarms.high:.1%})"
    )
