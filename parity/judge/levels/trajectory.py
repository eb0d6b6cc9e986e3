"""Level 3, `trajectory`: does training go the same way when nobody resets it? Judged by how far rounding alone leads."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge import allowances
from parity.judge.allowances import TRAJECTORY_LIMIT, UNIT32
from parity.judge.binomial import most_of, rate_interval
from parity.judge.judge import MeasuredPair, TensorPair, allow, measure, missing
from parity.judge.metrics import distance, is_constant, norm
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import UPDATED, TensorFile, TensorKey, Trace, parse_key
from parity.trace.arrays import Array

# Counters are level 1's; what belongs to single examples has another order in every perturbed run.
FOLLOWED = ("loss", "grad", "slot", "stat", "var", "ema", "metric")


class Spot(NamedTuple):
    """One tensor of one step that trajectories are followed at.

    Fields:
      step: its number.
      key: its name in the reference's trace.
      size: norm of the unperturbed reference's, since the start for weights, statistics and averages.
      rounding: what storing it alone can lose: ``u ||T||``.
      refused: why the unperturbed runs cannot be compared here, or None.
      constant: whether all elements of the reference's are one number, and there are several.
    """

    step: int
    key: str
    size: float
    rounding: float
    refused: Check | None
    constant: bool = False


class Trajectories(NamedTuple):
    """How far float32 runs that nobody reset are apart, at every spot.

    Fields:
      spots: what was looked at, in the order of steps and of computation.
      envelope: float64 array ``[runs, spots]``, distances of perturbed runs of the reference from the unperturbed one.
      held_out: the same of further perturbed runs, which the envelope does not know.
      candidate: float64 array ``[runs, spots]``, distances of the candidate's runs, the first one unperturbed, from the
        unperturbed reference.
      wandering: float64 array ``[runs, spots]``, distances of the candidate's perturbed runs from its unperturbed one.
    """

    spots: list[Spot]
    envelope: Array
    held_out: Array
    candidate: Array
    wandering: Array


class FalseAlarms(NamedTuple):
    """How often right runs are taken for others.

    Fields:
      outside: held-out runs beyond the limit, each judged alone.
      runs: how many there were.
      low, high: 95% interval of the rate of such runs.
      of_verdict: rate of false verdicts by the binomial law: most of the candidate's runs have to be outside.
      of_verdict_at_most: the same for the upper end of the interval.
    """

    outside: int
    runs: int
    low: float
    high: float
    of_verdict: float
    of_verdict_at_most: float


def spots_of(join: Join, reference: Trace, candidate: Trace, racing: Collection[str] = ()) -> list[Spot]:
    """Returns what trajectories are followed at: losses, gradients, slots, statistics, weights, averages, metrics.

    Args:
      join: names and layouts.
      reference: its unperturbed run.
      candidate: its unperturbed run.
      racing: trace names that the reference writes in no order; these are left out, for rounding is not what moves them.
    """
    spots = []
    start = reference.init()
    for step in reference.step_numbers:
        one_file, other_file = reference.step(step), candidate.step(step)
        for key, text in join.ordered(one_file.names()):
            # What races is moved by its order, which no perturbation of rounding shows.
            if key.quantity not in FOLLOWED or text in racing or not one_file.dtype(text).startswith("float"):
                continue
            one = one_file.read(text)
            other = join.read(key, other_file)
            pair = (
                missing(step, key, text) if other is None else TensorPair(step, key, text, one, other, compare="form")
            )
            # Shape, dtype and presence once, of the unperturbed runs: all others are made by the same programs.
            refused = next((check for check in measure("free", [pair]) if isinstance(check, Check)), None)
            # Since the start, for the ulp that a run starts away would hide a small update in the weight itself.
            size = norm(_since(start, key, text, one))
            # Only float32 runs are followed, so that storing loses u32 of the value, not of the update.
            spots.append(Spot(step, text, size, UNIT32 * norm(one), refused, is_constant(one)))
    return spots


def apart(join: Join, spots: Sequence[Spot], one: Trace, other: Trace, candidates: tuple[bool, bool]) -> Array:
    """Returns the distance of two runs at every spot, float64 ``[spots]``; infinite where one is not finite or not there.

    Args:
      join: names and layouts.
      spots: where to look.
      one: a run.
      other: another.
      candidates: for each of them, whether it is the candidate's.
    """
    starts = one.init(), other.init()
    # (spots,): infinite until measured, so that what cannot be read stands beyond any limit.
    found = np.full(len(spots), np.inf)
    files = {step: (one.step(step), other.step(step)) for step in {spot.step for spot in spots}}
    for place, spot in enumerate(spots):
        if spot.refused:
            continue
        key = parse_key(spot.key)
        # Each from its own start, for a perturbed run begins an ulp away.
        values = [
            _moved(join, key, spot.key, start, file, of_candidate)
            for start, file, of_candidate in zip(starts, files[spot.step], candidates, strict=True)
        ]
        if values[0] is None or values[1] is None or values[0].shape != values[1].shape:
            continue
        # Float32 tensors, subtracted in float64: their difference is of the size of their rounding.
        length = distance(values[0], values[1])
        found[place] = length if np.isfinite(length) else np.inf
    return found


def judge_trajectory(trajectories: Trajectories) -> list[Check]:
    """Judges the candidate at every spot: the median over its runs, by `allowances.trajectory`."""
    spread = spread_of(trajectories)
    # (spots,), over the 9 runs: a branch flip is in one of them, a bug in all.
    typical = np.median(trajectories.candidate, axis=0)
    checks = []
    for place, spot in enumerate(trajectories.spots):
        found = spot.refused or _measured(spot, float(typical[place]), float(spread[place]))
        checks.append(allow("free", found, allowances.trajectory))
    return checks


def _measured(spot: Spot, difference: float, spread: float) -> Check | MeasuredPair:
    # Training that overflows under one ulp of change is no ground to judge a port on.
    if not np.isfinite(spread):
        note = "a perturbed run is not finite here, so that nothing can be said"
        return Check("free", spot.step, spot.key, "incomparable", difference, spread, spread, spot.size, note)
    known = spot.size, difference, spot.size
    return MeasuredPair(spot.step, parse_key(spot.key), spot.key, *known, constant=spot.constant, rounding=(spread,))


def spread_of(trajectories: Trajectories) -> Array:
    """Returns what a run's distance is measured in at every spot, float64 ``[spots]``."""
    # (spots,): u32 |T|, below which runs may agree by luck of storing.
    rounding = np.array([spot.rounding for spot in trajectories.spots])
    # Of both sides, for a port that sums naively strays further than the reference does, and is right.
    wandering = np.maximum(_root_mean_square(trajectories.envelope), _root_mean_square(trajectories.wandering))
    # `tiny` keeps 0 / 0 out: a tensor that is 0 in every run is the same, and anything but 0 is beyond every limit.
    return np.asarray(np.maximum(np.maximum(wandering, rounding), np.finfo(np.float64).tiny))


def strays(trajectories: Trajectories, runs: Array) -> Array:
    """Returns the studentised statistic of runs: the largest distance of each in units of the spread, float64 ``[runs]``."""
    spread = spread_of(trajectories)
    judged = np.array([spot.refused is None for spot in trajectories.spots], dtype=bool) & np.isfinite(spread)
    if not judged.any():
        return np.zeros(len(runs))
    # (runs, judged spots) over (judged spots,): one number a run, its worst spot.
    return np.asarray(np.max(runs[:, judged] / spread[judged], axis=1))


def stray_of_candidate(trajectories: Trajectories) -> float:
    """Returns the statistic that decides: the largest median distance of the candidate's runs in units of the spread."""
    # The median tensor by tensor, then the worst tensor: a bug is in most runs at the same place, a flip is not.
    return float(strays(trajectories, np.median(trajectories.candidate, axis=0)[np.newaxis])[0])


def false_alarms(trajectories: Trajectories) -> FalseAlarms:
    """Counts the held-out runs of the reference that stray beyond the limit, which are right by construction."""
    # These runs had no part in the spread: judged by it, they say how often a right run is called different.
    outside = int(np.sum(strays(trajectories, trajectories.held_out) > TRAJECTORY_LIMIT))
    runs, judged = len(trajectories.held_out), len(trajectories.candidate)
    # Few runs: the interval says how far the true rate may lie from the one that was counted.
    low, high = rate_interval(outside, runs)
    return FalseAlarms(
        outside, runs, low, high, most_of(judged, outside / runs if runs else 1.0), most_of(judged, high)
    )


def _root_mean_square(runs: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(np.square(runs), axis=0)))


def _since(start: TensorFile, key: TensorKey, text: str, value: Array) -> Array:
    # In float64, for both are float32 and nearly equal.
    if key.quantity in UPDATED and text in start:
        return np.asarray(value, np.float64) - np.asarray(start.read(text), np.float64)
    return value


def _moved(
    join: Join, key: TensorKey, text: str, start: TensorFile, file: TensorFile, of_candidate: bool
) -> Array | None:
    if not of_candidate:
        return _since(start, key, text, file.read(text))
    # Into the reference's layout first: its distance to the reference is asked for.
    value = join.read(key, file)
    before = join.read(key, start) if key.quantity in UPDATED else None
    if value is None or before is None or before.shape != value.shape:
        return value
    # In float64: float32 would round the small update to the grid of the weight once more.
    return np.subtract(value, before, dtype=np.float64)
