"""Level 1, `function`: is it the same function and the same update rule? Decided in float64."""

from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from parity.judge.allowances import Spread
from parity.judge.imprecise_ops import is_inexact
from parity.judge.metrics import distance, is_constant, norm
from parity.judge.result import EXACT, NOT_IN_REFERENCE, Check, judge_exact, refuse, rounding_of
from parity.mapping.trace_map import OPTIONAL, Join
from parity.trace import TensorFile, TensorKey, Trace
from parity.trace.arrays import Array

LIMIT = 64.0
UNIT64 = 2.0**-53
UNIT32 = 2.0**-24
FLOAT32_TO_64 = 2.0**-29
FREE_FLOOR = 2.0**-50
UPDATED = frozenset(["var", "stat", "ema"])
FREE_QUANTITIES = frozenset(["loss", "grad", "clip", "slot", "stat", "var", "ema", "metric", "eval"])


class Lockstep(NamedTuple):
    """The traces that level 1 needs, all made from the same state before every step.

    Fields:
      reference32, reference64, candidate32, candidate64: the two sides in the two precisions.
      states: step k holds the state before step k, in the reference's names.
    """

    reference32: Trace
    reference64: Trace
    candidate32: Trace
    candidate64: Trace
    states: Trace


def judge_initial_slots(
    join: Join, reference: Mapping[str, Sequence[float]], candidate: Mapping[str, Sequence[float]]
) -> list[Check]:
    """Judges what the optimizers themselves put into their slots, which loading a common state would hide.

    Args:
      join: names and layouts.
      reference: dict of trace name to the smallest and the largest element of the slot.
      candidate: the same of its own, in its own names.
    """
    checks = []
    for key, text in join.ordered(reference):
        for name in join.candidates(key):
            if name not in candidate:
                continue
            one, other = np.array(reference[text], np.float32), np.array(candidate[name], np.float32)
            difference, size = float(np.abs(one - other).max()), float(np.abs(one).max())
            note = f"starts at {_span(candidate[name])} where the reference's starts at {_span(reference[text])}"
            same = difference <= 2.0**-22 * size
            checks.append(
                Check(
                    "fresh",
                    0,
                    text,
                    "same" if same else "different",
                    difference,
                    2.0**-22 * size,
                    size,
                    size,
                    "" if same else note,
                )
            )
    return checks


def _span(values: Sequence[float]) -> str:
    low, high = values
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def judge_init(join: Join, reference: TensorFile, candidate: TensorFile) -> list[Check]:
    """Judges the state that the candidate holds after loading the reference's, before anything is computed."""
    checks = []
    for key, text in join.ordered(reference.names()):
        if key.quantity not in UPDATED and key.quantity != "slot":
            continue
        one, other = reference.read(text), join.read(key, candidate)
        refused = refuse("init", 0, text, one, other)
        if refused or other is None:
            checks += [refused] if refused else []
            continue
        difference, size = distance(one, other), norm(one)
        allowed = 4 * UNIT64 * size
        verdict = "same" if difference <= allowed else "different"
        checks.append(Check("init", 0, text, verdict, difference, allowed, size, size, "", is_constant(one)))  # type: ignore[arg-type]
    return checks


def judge_lockstep(join: Join, traces: Lockstep, steps: Sequence[int]) -> list[Check]:
    """Judges every tensor of every step that both sides made from the same state.

    The difference of the float64 runs is measured in what rounding in float64 can do, which is what rounding in float32
    did, scaled by the ratio of the unit roundoffs: ``64 (2^-29 (eT + eP) + 4 u ||T||)``, where eT and eP are the distances
    of the sides' float32 runs from their own float64 ones. For weights and statistics T is the update.

    Where the reference's graph computes in float32 though it is fed float64, as everything in `tf.losses` does, losses and
    metrics are allowed what float32 rounds: ``3 (eT + eP + 2 u32 ||T||)`` more. Gradients are not. Nor is anything else but
    what depends on an op whose float64 kernel is as rough as that, see `is_inexact`.
    """
    checks: list[Check] = []
    in_float32 = bool(traces.reference64.facts.get("float32_in_float64"))
    unobserved = traces.candidate64.facts.get("unobserved", ())
    for step in steps:
        reference32, reference64 = traces.reference32.step(step), traces.reference64.step(step)
        candidate32, candidate64 = traces.candidate32.step(step), traces.candidate64.step(step)
        before = traces.states.step(step)
        for text in join.unjoined(reference64, candidate64):
            checks.append(Check("lockstep", step, text, "incomparable", note=NOT_IN_REFERENCE))
        for key, text in join.ordered(reference64.names()):
            one, other = reference64.read(text), join.read(key, candidate64)
            settled = _settled("lockstep", step, key, text, one, other, unobserved)
            if settled or other is None:
                checks += [settled] if settled else []
                continue
            known = [rounding_of(reference32.read(text), one), rounding_of(join.read(key, candidate32), other)]
            rough_both = sum(rough for rough in known if rough is not None)
            as_float32 = in_float32 and key.quantity in ("loss", "metric")
            as_float32 = as_float32 or is_inexact(key, traces.reference64.facts)
            check = _judged(step, text, key, one, other, before, rough_both, as_float32)
            checks.append(_not_told(check) if known == [None, None] and check.verdict == "different" else check)
    return checks


def judge_free(
    join: Join, reference: Trace, candidate: Trace, measured: Spread, lockstep: Sequence[Check] = ()
) -> list[Check]:
    """Judges float64 runs that nobody resets, against runs of the reference started one ulp away.

    Two things are allowed. What the step itself rounds: `lockstep` allowed it that much. And what came of the rounding of
    earlier steps: 64 times the largest distance that any such run has had from the reference up to the step, times how
    much larger the rounding of those steps is, by `lockstep`, than that first ulp.
    """
    checks: list[Check] = []
    spread: dict[str, float] = {}
    louder = _louder(reference, measured.ulp, lockstep)
    unobserved = candidate.facts.get("unobserved", ())
    single = {(check.step, check.key): check.allowed for check in lockstep if check.run == "lockstep"}
    for step in reference.step_numbers:
        one_file, other_file = reference.step(step), candidate.step(step)
        for key, text in join.ordered(one_file.names()):
            if key.quantity not in FREE_QUANTITIES:
                continue
            one, other = one_file.read(text), join.read(key, other_file)
            settled = _settled("free", step, key, text, one, other, unobserved)
            if settled or other is None:
                checks += [settled] if settled else []
                continue
            further = measured.at(step, text, one)
            spread[text] = max(spread.get(text, 0.0), further if isfinite(further) else 0.0)
            size, difference = norm(one), distance(one, other)
            allowed = single.get((step, text), 0.0) + LIMIT * max(louder[step] * spread[text], FREE_FLOOR * size)
            verdict = "same" if difference <= allowed else "different"
            scale = max(allowed / (LIMIT * UNIT64), size)
            checks.append(Check("free", step, text, verdict, difference, allowed, scale, size, "", is_constant(one)))  # type: ignore[arg-type]
    return checks


def _louder(reference: Trace, ulp: float, lockstep: Sequence[Check]) -> dict[int, float]:
    # A replica is moved once, by an ulp of the weights; rounding moves the weights in every step. Their ratio, the
    # roundings of all steps so far taken as independent of each other, carries the spread of the one over to the other.
    rounded = dict.fromkeys(reference.step_numbers, 0.0)
    for check in lockstep:
        if check.run == "lockstep" and check.key.startswith("var/") and check.step in rounded:
            rounded[check.step] += (check.allowed / LIMIT) ** 2
    sums = np.sqrt(np.cumsum(list(rounded.values())))
    return {step: max(1.0, float(sum_) / ulp) if ulp > 0.0 else 1.0 for step, sum_ in zip(rounded, sums, strict=True)}


def judge_counter(run: str, step: int, key: TensorKey, text: str, reference: Array, candidate: Array | None) -> Check:
    """Judges a counter: equal once rounded to float32, which is what TensorFlow's graph holds."""
    if candidate is None:
        return Check(run, step, text, "not_run", note="the candidate keeps no such counter")
    one, other = np.float32(reference), np.float32(candidate)
    return judge_exact(run, step, text, np.asarray(one), np.asarray(other))


def _settled(
    run: str, step: int, key: TensorKey, text: str, one: Array, other: Array | None, unobserved: Collection[str]
) -> Check | None:
    if key.quantity in OPTIONAL:
        return judge_counter(run, step, key, text, one, other)
    refused = refuse(run, step, text, one, other, unobserved)
    if refused:
        return refused
    if other is not None and (key.quantity in EXACT or one.dtype.kind != "f"):
        return judge_exact(run, step, text, one, other)
    return None


def _not_told(check: Check) -> Check:
    # Nobody knows what rounding does to what overflows in float32 on both sides: neither the one verdict nor the other.
    return check._replace(verdict="incomparable", note="in float32 it is not finite on either side, in float64 it is")


def _judged(
    step: int, text: str, key: TensorKey, one: Array, other: Array, before: TensorFile, rough: float, as_float32: bool
) -> Check:
    size = norm(one)
    moved, stored = size, 0.0
    if key.quantity in UPDATED and text in before:
        moved, stored = distance(one, before.read(text)), 2 * UNIT64 * size
    if as_float32:
        stored = 3 * (rough + 2 * UNIT32 * moved)
    difference = distance(one, other)
    allowed = LIMIT * (FLOAT32_TO_64 * rough + 4 * UNIT64 * moved) + stored
    scale = rough * 2.0**24 + moved
    verdict = "same" if difference <= allowed else "different"
    return Check("lockstep", step, text, verdict, difference, allowed, scale, size, "", is_constant(one))  # type: ignore[arg-type]
