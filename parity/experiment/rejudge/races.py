"""Judges moving statistics and averages that the reference writes in no order, against every order that is possible."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.case import Ema
from parity.judge import allowances
from parity.judge.judge import MeasuredPair, allow
from parity.judge.levels.function import Lockstep
from parity.judge.metrics import distance, norm
from parity.judge.races import Outcome, averages, decays, kept_part, nearest, nearest_of_each, outcomes
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import GLOBAL_STEP, TensorFile, Trace, key_of, parse_evaluated, parse_key, quantity_of
from parity.trace.arrays import Array

# Large beside the rounding of a statistic, so that what an update keeps of it is known to 1e-9; 1 makes the difference
# of two results the part itself.
SHIFT = 1.0
FREE_RUN_RACES = "the reference races for it: a free run leaves every step to another order"
OLD, NEW = "the old weights", "the new weights"


class Races(NamedTuple):
    """What it takes to work out the possible orders.

    Fields:
      racing: the trace names of the statistics and averages that race, in the reference's names.
      ema: how averages are kept, where any are.
      alone: by precision, a list over the towers of the candidate's lockstep run in which that tower's shard comes first;
        nothing where no statistic races.
      moved: the candidate's float64 lockstep run from statistics moved by `SHIFT`.
    """

    racing: frozenset[str]
    ema: Ema | None
    alone: Mapping[str, Sequence[Trace]] = {}
    moved: Trace | None = None

    def is_evaluated_from(self, text: str) -> bool:
        """Says whether a tensor comes of an inference from statistics, or from averages, that race."""
        if quantity_of(text) != "eval":
            return False
        # With averages alone racing, an inference from the weights themselves is in order.
        only_averages = {quantity_of(each) for each in self.racing} == {"ema"}
        return not only_averages or parse_evaluated(parse_key(text).name).averages


def settle_races(checks: list[Check], races: Races | None, join: Join, traces: Lockstep, precision: str) -> list[Check]:
    """Returns the checks with those of what races judged against the possible orders; free runs cannot be.

    Args:
      checks: of a level.
      races: None where nothing races.
      join: names and layouts.
      traces: the lockstep runs.
      precision: that the level decides in, "float64" or "float32".
    """
    if races is None:
        return checks
    settled = []
    for check in checks:
        evaluated = check.run == "free" and races.is_evaluated_from(check.key)
        racing = check.key in races.racing and check.run not in ("init", "fresh")
        # What one side lacks, no order explains.
        if not (evaluated or racing) or check.verdict == "incomparable":
            settled.append(check)
        elif check.run == "free":
            settled.append(check._replace(verdict="not_run", difference=0.0, allowed=0.0, note=FREE_RUN_RACES))
        elif quantity_of(check.key) == "ema":
            settled.append(_judged_average(check, races, join, traces, precision))
        else:
            settled.append(_judged(check, races, join, traces, precision))
    return settled


def race_notes(races: Races | None, checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of the races."""
    notes = []
    for quantity, told in (
        ("stat", "all towers write {names} without an order"),
        ("ema", "{names} are updated unordered with the weights, and take the old weights or the new ones"),
    ):
        names = sorted(text for text in (races.racing if races else ()) if quantity_of(text) == quantity)
        found = [check for check in checks if check.key in names and check.run == "lockstep"]
        same = [check for check in found if check.verdict == "same"]
        if found:
            notes.append(
                f"the reference races: {told.format(names=', '.join(names))}, so that a step has several right results. "
                f"{len(same)} of {len(found)} are what one of the possible orders gives "
                f"(orders seen: {len({check.note for check in same})})"
            )
    return notes


def _judged(check: Check, races: Races, join: Join, traces: Lockstep, precision: str) -> Check:
    step, text = check.step, check.key
    reference = traces.reference64 if precision == "float64" else traces.reference32
    one, before = reference.step(step).read(text), traces.states.step(step).read(text)
    found64, found32 = (_possible(races, join, step, text, before, kind) for kind in ("float64", "float32"))
    if not found64 or not found32:
        return check  # the candidate lacks it, as the check says
    # The order that the reference took is told by its own value; the candidate's does not matter, for its ranks do not
    # race.
    best = nearest(one, found64 if precision == "float64" else found32)
    # The same order in the other precision, for rounding depends on the order.
    rough = next(
        (distance(a.value, b.value) for a, b in zip(found64, found32, strict=True) if a.order == best.order), 0.0
    )
    found = MeasuredPair(
        step,
        parse_key(text),
        text,
        norm(one),
        distance(one, best.value),
        distance(one, before),
        True,
        rounding=(rough,),
    )
    judged = allow("lockstep", found, allowances.racing_statistic(precision))
    same = judged.verdict == "same"
    note = f"as in the order: {best.order}" if same else f"none of {len(found64)} possible orders gives it"
    return judged._replace(note=note)


def _possible(races: Races, join: Join, step: int, text: str, before: Array, precision: str) -> list[Outcome]:
    key = parse_key(text)
    alone = [join.read(key, trace.step(step)) for trace in races.alone[precision]]
    once = join.read(key, races.alone["float64"][0].step(step))
    moved = join.read(key, races.moved.step(step)) if races.moved else None
    present = [each for each in alone if each is not None]
    if once is None or moved is None or len(present) != len(alone):
        return []
    # In the precision that is judged: orders of float32 round at every write.
    start = before.astype(present[0].dtype)
    return list(outcomes(start, present, kept_part(once, moved, SHIFT).astype(start.dtype)))


def _judged_average(check: Check, races: Races, join: Join, traces: Lockstep, precision: str) -> Check:
    """Each side's average has to be what one order makes of its own weights, which are compared for themselves."""
    step, key = check.step, parse_key(check.key)
    sides = (
        (traces.reference64, traces.candidate64) if precision == "float64" else (traces.reference32, traces.candidate32)
    )
    reference, candidate = (trace.step(step) for trace in sides)
    weight = key.of("var")
    averaged = reference.read(check.key), join.read(key, candidate)
    weights = reference.read(weight), join.read(weight, candidate)
    before = traces.states.step(step)
    best, differences = [], []
    # Each side by its own weights: that these agree, their own checks say.
    for average, taken in zip(averaged, weights, strict=True):
        if average is None or taken is None or races.ema is None:
            return check  # one side lacks it, as the check says
        best.append(nearest_of_each(average, _of_weights(races.ema, before, key.name, taken)))
        differences.append(distance(average, best[-1].value))
    size, moved = norm(averaged[0]), distance(averaged[0], before.read(check.key))
    found = MeasuredPair(step, key, check.key, size, float(np.max(differences)), moved, True)
    judged = allow("lockstep", found, allowances.racing_average(precision))
    note = f"as of {best[0].order}" if judged.verdict == "same" else f"neither of {OLD} nor of {NEW}"
    return judged._replace(note=note)


def _of_weights(ema: Ema, before: TensorFile, name: str, new: Array) -> list[Outcome]:
    average, old = (before.read(key_of(quantity, name)).astype(new.dtype) for quantity in ("ema", "var"))
    # Before the step, as the graph may read it.
    updates = int(before.read(GLOBAL_STEP))
    return averages(average, {OLD: old, NEW: new}, decays(ema.decay, ema.num_updates, updates))
