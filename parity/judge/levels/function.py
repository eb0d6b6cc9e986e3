"""Level 1, `function`: is it the same function and the same update rule? Decided in float64."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from parity.judge import allowances
from parity.judge.imprecise_ops import is_inexact
from parity.judge.judge import (
    NOT_IN_REFERENCE,
    Allowed,
    MeasuredPair,
    Missing,
    TensorPair,
    allow,
    comparison,
    judge,
    missing,
    rounding_between,
)
from parity.judge.result import Check
from parity.judge.spread import Spread
from parity.mapping.trace_map import Join
from parity.trace import UPDATED, TensorFile, Trace

# What a step leaves or minimises. Activations and towers' gradients say in a free run what lockstep has said of them
# already.
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
        # One slot of the reference may be several of the port's, as of gates that torch keeps apart.
        for name in join.candidates(key):
            if name not in candidate:
                continue
            # (2,): smallest and largest element; TensorFlow's are float32, which is within what is allowed.
            one, other = np.array(reference[text]), np.array(candidate[name])
            difference, size = float(np.abs(one - other).max()), float(np.abs(one).max())
            note = f"starts at {_span(candidate[name])} where the reference's starts at {_span(reference[text])}"
            # Nothing was updated yet, so that the size stands for the update.
            found = MeasuredPair(0, key, text, size, difference, size)
            checks.append(allow("fresh", found, lambda pair, note=note: allowances.started(pair)._replace(note=note)))
    return checks


def _span(values: Sequence[float]) -> str:
    low, high = values
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def judge_init(join: Join, reference: TensorFile, candidate: TensorFile) -> list[Check]:
    """Judges the state that the candidate holds after loading the reference's, before anything is computed."""
    return judge("init", _loaded(join, reference, candidate), allowances.loaded)


def _loaded(join: Join, reference: TensorFile, candidate: TensorFile) -> Iterator[TensorPair | Missing]:
    for key, text in join.ordered(reference.names()):
        # Counters and rates are never loaded: each side has its own.
        if key.quantity in UPDATED or key.quantity == "slot":
            other = join.read(key, candidate)
            yield missing(0, key, text) if other is None else TensorPair(0, key, text, reference.read(text), other)


# What float32 loses of each tensor of a step, eT and eP by trace name: levels 1 and 2 need the same.
Lost = dict[str, list[float | None]]


def judge_lockstep(join: Join, traces: Lockstep, steps: Sequence[int], lost: Lost | None = None) -> list[Check]:
    """Judges every tensor of every step that both sides made from the same state: by `allowances.function`.

    Where the reference's graph computes in float32 though it is fed float64, as everything in `tf.losses` does, losses and
    metrics are allowed what float32 rounds: `allowances.function_in_float32`. Gradients are not. Nor is anything else but
    what depends on an op whose float64 kernel is as rough as that, see `is_inexact`.

    Args:
      join: names and layouts.
      traces: the sides in both precisions.
      steps: those to judge.
      lost: takes what float32 loses, where `steps` is a single one.
    """
    in_float32 = bool(traces.reference64.facts.get("float32_in_float64"))

    def allowance(pair: MeasuredPair) -> Allowed:
        # The fact names lines of the script, not outputs: every loss and metric may come of them, and no gradient does.
        as_float32 = in_float32 and pair.key.quantity in ("loss", "metric")
        as_float32 = as_float32 or is_inexact(pair.key, traces.reference64.facts)
        return allowances.function_in_float32(pair) if as_float32 else allowances.function(pair)

    return judge("lockstep", _in_lockstep(join, traces, steps, {} if lost is None else lost), allowance)


def _in_lockstep(join: Join, traces: Lockstep, steps: Sequence[int], lost: Lost) -> Iterator[TensorPair | Missing]:
    # Of a step that the user wrote not all is seen: that is not run, and not missing.
    unobserved = traces.candidate64.facts.get("unobserved", ())
    for step in steps:
        reference, candidate = traces.reference64.step(step), traces.candidate64.step(step)
        # All four runs made this step from the same state, so that eT and eP are of this step alone.
        rough = traces.reference32.step(step), traces.candidate32.step(step)
        before = traces.states.step(step)
        # First, for what the reference lacks stands at no place in its order.
        for text in join.unjoined(reference, candidate):
            yield Missing(step, text, NOT_IN_REFERENCE, difference=0.0)
        for pair in _pairs(join, step, reference, candidate, unobserved):
            if isinstance(pair, TensorPair):
                # A weight of 1 that moves by 1e-6 hides an update that is off by a half: only the update is of a size
                # to judge by. A variable that the state lacks is judged as a whole.
                start = before.read(pair.text) if pair.key.quantity in UPDATED and pair.text in before else None
                pair = pair._replace(before=start, rounding=partial(_lost, join, pair, *rough, lost))
            yield pair


def _lost(
    join: Join, pair: TensorPair, reference32: TensorFile, candidate32: TensorFile, lost: Lost
) -> list[float | None]:
    """Returns eT and eP of a pair in float64."""
    lost[pair.text] = [
        rounding_between(reference32.read(pair.text), pair.reference),
        # In the reference's layout on both sides of the subtraction: a transform that adds up must not add to eP.
        rounding_between(join.read(pair.key, candidate32), pair.candidate),
    ]
    return lost[pair.text]


def _pairs(
    join: Join,
    step: int,
    reference: TensorFile,
    candidate: TensorFile,
    unobserved: Collection[str],
    quantities: Collection[str] | None = None,
) -> Iterator[TensorPair | Missing]:
    for key, text in join.ordered(reference.names()):
        # Before reading, which is what takes the time.
        if quantities is not None and key.quantity not in quantities:
            continue
        one, other = reference.read(text), join.read(key, candidate)
        if other is None:
            yield missing(step, key, text, unobserved)
        else:
            yield TensorPair(step, key, text, one, other, compare=comparison(key, one))


def judge_free(
    join: Join, reference: Trace, candidate: Trace, measured: Spread, lockstep: Sequence[Check] = ()
) -> list[Check]:
    """Judges float64 runs that nobody resets, against runs of the reference started one ulp away.

    Args:
      join: names and layouts.
      reference: its free run.
      candidate: its free run.
      measured: how far an ulp carries.
      lockstep: checks that say what each step rounds by itself, see `allowances.free_running`.
    """
    # Built once, for it carries what the steps before have shown: pairs have to come in the order of the steps.
    allowance = allowances.free_running(reference.step_numbers, measured.ulp, lockstep)
    return judge("free", _freely(join, reference, candidate, measured), allowance)


def _freely(join: Join, reference: Trace, candidate: Trace, measured: Spread) -> Iterator[TensorPair | Missing]:
    # Of a step that the user wrote not all is seen: that is not run, and not missing.
    unobserved = candidate.facts.get("unobserved", ())
    for step in reference.step_numbers:
        files = reference.step(step), candidate.step(step)
        for pair in _pairs(join, step, *files, unobserved, FREE_QUANTITIES):
            if isinstance(pair, TensorPair):
                pair = pair._replace(rounding=partial(_carried, measured, pair))
            yield pair


def _carried(measured: Spread, pair: TensorPair) -> list[float | None]:
    return [measured.at(pair.step, pair.text, pair.reference)]
