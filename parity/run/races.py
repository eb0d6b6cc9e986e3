"""Judges moving statistics that the reference's towers write without an order, against every order that is possible."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.join import Join
from parity.judge.level1 import FLOAT32_TO_64, UNIT64, Lockstep
from parity.judge.level1 import LIMIT as LIMIT64
from parity.judge.level2 import LIMIT as LIMIT32
from parity.judge.level2 import UNIT32
from parity.judge.numbers import Array, distance, norm
from parity.judge.races import Outcome, kept_part, nearest, outcomes
from parity.judge.result import Check
from parity.run.states import Tensors
from parity.trace import Trace, parse_key

SHIFT = 1.0
FREE = "the reference's towers race for it: a free run leaves every step to another order"


class Races(NamedTuple):
    """What it takes to work out the possible orders.

    Fields:
      names: the statistics that race, in the reference's names.
      alone: by precision, a list over the towers of the candidate's lockstep run in which that tower's shard comes first.
      moved: the candidate's float64 lockstep run from statistics moved by `SHIFT`.
    """

    names: tuple[str, ...]
    alone: Mapping[str, Sequence[Trace]]
    moved: Trace


def with_tower_first(batch: Tensors, tower: int, towers: int) -> Tensors:
    """Returns a batch in which a tower's shard has changed places with the first's."""
    order = np.arange(towers)
    order[[0, tower]] = [tower, 0]
    return {text: np.concatenate([np.split(value, towers)[place] for place in order]) for text, value in batch.items()}


def with_statistics_moved(state: Tensors) -> Tensors:
    """Returns a state whose statistics are larger by `SHIFT`, in float64: in float32 the sum would round."""
    moved = {text: value.astype("float64") + SHIFT for text, value in state.items() if text.startswith("stat/")}
    return {**state, **moved}


def settle_races(checks: list[Check], races: Races | None, join: Join, traces: Lockstep, precision: str) -> list[Check]:
    """Returns the checks with those of racing statistics judged against the possible orders; free runs cannot be.

    Args:
      checks: of a level.
      races: None where nothing races.
      join: names and layouts.
      traces: the lockstep runs.
      precision: that the level decides in, "float64" or "float32".
    """
    racing = {f"stat/{name}" for name in races.names} if races else set()
    if races is None or not racing:
        return checks
    settled = []
    for check in checks:
        evaluated = check.run == "free" and check.key.startswith("eval/")  # from statistics that part
        if not evaluated and (check.key not in racing or check.run in ("init", "fresh")):
            settled.append(check)
        elif check.run == "free":
            settled.append(check._replace(verdict="not_run", difference=0.0, allowed=0.0, note=FREE))
        else:
            settled.append(_judged(check, races, join, traces, precision))
    return settled


def race_notes(races: Races | None, checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of the race."""
    racing = {f"stat/{name}" for name in races.names} if races else set()
    found = [check for check in checks if check.key in racing and check.run == "lockstep"]
    if not found:
        return []
    same = sum(check.verdict == "same" for check in found)
    orders = len({check.note for check in found if check.verdict == "same"})
    return [
        f"the reference races: all towers write {', '.join(sorted(racing))} without an order, so that a step has several "
        f"right results. {same} of {len(found)} are what one of the possible orders gives ({orders} different ones seen)"
    ]


def _judged(check: Check, races: Races, join: Join, traces: Lockstep, precision: str) -> Check:
    step, text = check.step, check.key
    reference = traces.reference64 if precision == "float64" else traces.reference32
    one, before = reference.step(step).read(text), traces.states.step(step).read(text)
    found64, found32 = (_possible(races, join, step, text, before, kind) for kind in ("float64", "float32"))
    if not found64 or not found32:
        return check  # the candidate lacks it, as the check says
    best = nearest(one, found64 if precision == "float64" else found32)
    rough = next(
        (distance(a.value, b.value) for a, b in zip(found64, found32, strict=True) if a.order == best.order), 0.0
    )
    size, difference = norm(one), distance(one, best.value)
    moved = distance(one, before)
    if precision == "float64":
        allowed = LIMIT64 * (FLOAT32_TO_64 * 2 * rough + 4 * UNIT64 * moved) + 2 * UNIT64 * size
        scale = 2 * rough * 2.0**24 + moved
    else:
        allowed, scale = LIMIT32 * (2 * rough + 2 * UNIT32 * moved) + 2 * UNIT32 * size, 2 * rough / UNIT32 + moved
    same = difference <= allowed
    note = f"as in the order: {best.order}" if same else f"none of {len(found64)} possible orders gives it"
    return Check("lockstep", step, text, "same" if same else "different", difference, allowed, scale, size, note)


def _possible(races: Races, join: Join, step: int, text: str, before: Array, precision: str) -> list[Outcome]:
    key = parse_key(text)
    alone = [join.read(key, trace.step(step)) for trace in races.alone[precision]]
    once, moved = (join.read(key, trace.step(step)) for trace in (races.alone["float64"][0], races.moved))
    present = [each for each in alone if each is not None]
    if once is None or moved is None or len(present) != len(alone):
        return []
    start = before.astype(present[0].dtype)
    return list(outcomes(start, present, kept_part(once, moved, SHIFT).astype(start.dtype)))
