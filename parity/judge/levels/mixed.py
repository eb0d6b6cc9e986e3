"""Level 4, `mixed`: is reduced precision as good as half precision's rounding lets it be? The port against itself."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from parity.judge import allowances
from parity.judge.judge import MeasuredPair, Missing, TensorPair, judge, missing
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.trace import EXECUTION_RANK, GRADIENTS, LOSS_SCALE, SKIPPED, UPDATED, TensorFile, Trace, parse_key

JUDGED = frozenset(["act", "loss", "metric", "tower_grad", "grad", "clip", "slot", "stat", "var", "ema"])
# apex/amp/scaler.py: begins at 2^16, never above 2^24, doubles after 2,000 steps without overflow.
FIRST_SCALE, LARGEST_SCALE, WINDOW = 2.0**16, 2.0**24, 2000


class Halves(NamedTuple):
    """What was recorded of a port in half precision, and beside it.

    Fields:
      full: the port in float32, made from the same state before every step.
      mixed: the same at its level.
      free: the same at its level, nobody resetting it.
      draws: pairs of float32 traces with random roundings by the half type's unit roundoff, some of single steps, and of the
        states before their steps.
      states: step k holds the state before step k.
      dtype: "float16" or "bfloat16".
      opt_level: "O1", "O2" or "O3".
    """

    full: Trace
    mixed: Trace
    free: Trace
    draws: Sequence[tuple[Trace, Trace]]
    states: Trace
    dtype: str
    opt_level: str


def judge_mixed(halves: Halves) -> list[Check]:
    """Judges every tensor of every step against the port's own float32 run: by `allowances.mixed`.

    What comes of a gradient that overflowed is not judged: the step is skipped, which `judge_scale` looks at.
    """
    allowance = allowances.mixed(halves.dtype, partial(_loss_scale, halves))
    return judge("lockstep", _pairs(halves), allowance)


def _pairs(halves: Halves) -> Iterator[TensorPair | Missing]:
    for step in halves.mixed.step_numbers:
        full, mixed, before = (trace.step(step) for trace in (halves.full, halves.mixed, halves.states))
        # A skipped step has gradients that are infinite by design, and updates nothing; its forward pass was made.
        skipped = SKIPPED in mixed and bool(mixed.read(SKIPPED))
        for text in _in_order(full):
            key = parse_key(text)
            # Batches are given to both, and counters are `judge_scale`'s.
            if key.quantity not in JUDGED:
                continue
            if skipped and key.quantity not in ("act", "loss", "metric", "stat"):
                # Whether it had to be skipped, `judge_scale` decides.
                note = "not judged: the gradients overflowed, and the step is skipped"
                yield Missing(step, text, note, "not_run", 0.0)
            elif text not in mixed:
                yield missing(step, key, text)
            else:
                start = before.read(text) if key.quantity in UPDATED and text in before else None
                pair = TensorPair(step, key, text, full.read(text), mixed.read(text), start)
                yield pair._replace(rounding=partial(_rounding, halves, pair))


def _rounding(halves: Halves, pair: TensorPair) -> list[float | None]:
    """Returns H, the largest distance of a draw from the float32 run, and the size of what is stored in half itself."""
    step, text, start = pair.step, pair.text, pair.before
    update = pair.reference if start is None else pair.reference - start
    # Each draw starts a step from weights that it has rounded: what it moves counts from there, else every update would
    # be off by the rounding of the weight itself.
    predicted = 0.0
    # Invariant: `predicted` is the largest of the draws so far.
    for draw, states in halves.draws:
        if step not in draw.step_numbers:
            continue
        value = draw.step(step).read(text)
        predicted = max(predicted, distance(value if start is None else value - states.step(step).read(text), update))
    # At O3 everything is kept in half precision; at O1 and O2 nothing that is carried from step to step is.
    return [predicted, norm(start) if start is not None and halves.opt_level == "O3" else 0.0]


def _loss_scale(halves: Halves, pair: MeasuredPair) -> float:
    # Gradients alone are multiplied by the scale while they are in half precision.
    if pair.key.quantity not in GRADIENTS:
        return 1.0
    mixed = halves.mixed.step(pair.step)
    return float(mixed.read(LOSS_SCALE)) if LOSS_SCALE in mixed else 1.0


def judge_scale(halves: Halves) -> list[Check]:
    """Judges loss scale and skipped steps against Apex's rule: halve and skip on overflow, double after 2000 clean steps.

    Both runs are judged, and that a skipped step leaves weights and slots to the bit as they were.
    """
    # Both runs are of one port at one level: the first step of the one tells whether it scales its loss.
    if LOSS_SCALE not in halves.mixed.step(halves.mixed.step_numbers[0]):
        return []
    checks: list[Check] = []
    for run, trace in (("lockstep", halves.mixed), ("free", halves.free)):
        files = {step: trace.step(step) for step in trace.step_numbers}
        # What decides in Apex is the combined gradient, after the scale was taken out: infinite stays infinite.
        overflows = [not _finite_gradients(file) for file in files.values()]
        wanted = zip(scales(overflows), overflows, strict=True)
        for (step, file), (scale, overflowed) in zip(files.items(), wanted, strict=True):
            found, skipped = float(file.read(LOSS_SCALE)), float(file.read(SKIPPED))
            checks.append(_exact(run, step, LOSS_SCALE, scale, found))
            checks.append(_exact(run, step, SKIPPED, float(overflowed), skipped))
    return checks + _skipped_updates(halves.free)


def scales(overflows: Sequence[bool]) -> list[float]:
    """Returns the loss scale that Apex's rule has at each step: halved after an overflow, doubled after 2000 without.

    Args:
      overflows: for each step whether a gradient was not finite.

    Source: apex/amp/scaler.py (tag 25.04).
    """
    found, scale, clean = [], FIRST_SCALE, 0
    for overflowed in overflows:
        # Invariant: `clean` counts the steps since the scale last moved. The scale of a step is that before its own
        # outcome.
        found.append(scale)
        scale, clean = (scale / 2, 0) if overflowed else (scale, clean + 1)
        if clean == WINDOW:
            scale, clean = min(2 * scale, LARGEST_SCALE), 0
    return found


def all_skipped(trace: Trace) -> bool:
    """Returns whether no step of a run was made."""
    files = [trace.step(step) for step in trace.step_numbers]
    return all(SKIPPED in file and bool(file.read(SKIPPED)) for file in files)


def _exact(run: str, step: int, text: str, wanted: float, got: float) -> Check:
    # Powers of 2, exact in any float.
    same = wanted == got
    # Named with both numbers: halved once too often reads differently from never halved.
    note = "" if same else f"{got:g} where Apex's rule gives {wanted:g}"
    return Check(run, step, text, "same" if same else "different", abs(got - wanted), 0.0, wanted, abs(wanted), note)


def _finite_gradients(file: TensorFile) -> bool:
    return all(bool(np.isfinite(file.read(text)).all()) for text in file.names("grad"))


def _skipped_updates(trace: Trace) -> list[Check]:
    # Invariant: `previous` is what the run held before the step. Of the free run, for lockstep loads every state anew.
    checks, previous = [], trace.init()
    for step in trace.step_numbers:
        file = trace.step(step)
        # To the bit: an optimizer stepped with gradients of zero would still move by its momentum.
        held = [text for text in file.names("var", "slot") if text in previous]
        for text in held if bool(file.read(SKIPPED)) else []:
            # No allowance: nothing was computed.
            moved = distance(file.read(text), previous.read(text))
            note = "" if moved == 0.0 else "a skipped step moved it"
            checks.append(Check("free", step, text, "different" if moved else "same", moved, note=note))
        previous = file
    return checks


def _in_order(file: TensorFile) -> list[str]:
    names = file.names()
    place = {text: (EXECUTION_RANK[parse_key(text).quantity], number) for number, text in enumerate(names)}

    def order(text: str) -> tuple[int, int]:
        rank, number = place[text]
        # Gradients come from the last layer: the last in the trace is computed first.
        return rank, -number if parse_key(text).quantity in GRADIENTS else number

    return sorted(names, key=order)
