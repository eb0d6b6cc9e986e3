"""Judges two traces that came without float64 shadows: weaker evidence, with allowances that nobody measured."""

import math
from collections.abc import Callable, Iterator, Sequence

from parity.judge import allowances
from parity.judge.allowances import FIXED_MARGIN
from parity.judge.fast_metrics import fused_norms
from parity.judge.judge import (
    NOT_IN_REFERENCE,
    MeasuredPair,
    Missing,
    Norms,
    TensorPair,
    allow,
    comparison,
    measure,
    missing,
)
from parity.judge.metrics import distance, is_constant, is_finite, norm, unit_roundoff
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import OPTIMIZED, UPDATED, TensorFile, Trace, parse_key

EMPTY = 1e-8  # of all gradients of a step: what is smaller is taken for zero but for rounding


def judge_plain(
    join: Join,
    reference: Trace,
    candidate: Trace,
    steps: Sequence[int],
    judged: Callable[[int], None] = lambda count: None,
) -> list[Check]:
    """Judges every tensor of every step: by `allowances.fixed`.

    What an optimizer makes of a gradient that is zero but for rounding is not judged: dividing one rounding by another gives
    any number.

    Args:
      join: names and layouts of both sides.
      reference: its trace.
      candidate: its trace.
      steps: those that both have.
      judged: told after each step how many are done.
    """
    checks: list[Check] = []
    previous = reference.init()
    # Invariant: `previous` is the reference's state before the step, for no other trace says what an update began with.
    # `made` counts steps, whatever their numbers.
    for made, step in enumerate(steps, start=1):
        one_file, other_file = reference.step(step), candidate.step(step)
        for text in join.unjoined(one_file, other_file):
            checks.append(Check("free", step, text, "incomparable", note=NOT_IN_REFERENCE))
        checks += _step(_pairs(join, step, one_file, other_file, previous), made)
        for trace in (reference, candidate):
            trace.settle()
        previous = one_file
        judged(made)
    return checks


def _step(pairs: Iterator[TensorPair | Missing], made: int) -> Iterator[Check]:
    # Each allowance needs all gradients of the step, so that all pairs are measured before the first is judged.
    found = list(measure("free", pairs, _norms))
    combined = [each for each in found if isinstance(each, MeasuredPair) and each.key.quantity == "grad"]
    gradients: dict[str, float] = {}
    for pair in combined:  # of one variable that several optimizers train, both gradients
        gradients[pair.key.variable] = math.hypot(gradients.get(pair.key.variable, 0.0), pair.size)
    # Of the combined gradients: one length, which does not depend on how the net is cut into tensors.
    all_gradients = math.hypot(*gradients.values())
    allowance = allowances.fixed(made, gradients)
    empty: set[str] = set()
    # So that popping from the end yields them in execution order.
    found.reverse()
    while found:  # each goes as its check comes: of 100,000 tensors both would not be small
        each = found.pop()
        check = allow("free", each, allowance)
        key = each.key if isinstance(each, MeasuredPair) else parse_key(each.key)
        # The combined gradient decides: that of one tower may be zero where the others' are not, and then all is judged.
        # Of one that was not measured, as the candidate lacks it, nobody knows that it is zero.
        if isinstance(each, MeasuredPair) and key.quantity == "grad" and each.size < EMPTY * all_gradients:
            empty.add(key.name)
        if key.quantity in OPTIMIZED and key.name in empty and check.verdict == "different":
            note = "not judged: its gradient is structurally zero"
            check = check._replace(verdict="not_run", note=note)
        yield check


def _pairs(
    join: Join, step: int, reference: TensorFile, candidate: TensorFile, previous: TensorFile
) -> Iterator[TensorPair | Missing]:
    for key, text in join.ordered(reference.names()):
        one, other = reference.read(text), join.read(key, candidate)
        if other is None:
            yield missing(step, key, text)
            continue
        compare = comparison(key, one)
        # Float weights alone have an update that can be measured.
        updated = compare == "norm" and key.quantity in UPDATED and text in previous
        # A weight that is of another shape in the step before has not moved from there to here.
        updated = updated and previous.shape(text) == one.shape
        # Before anything else is read of these files.
        parts = [part for part in (reference.part_of(one), candidate.part_of(other)) if part is not None]
        before = previous.read(text) if updated else None
        yield TensorPair(step, key, text, one, other, before, compare, parts=parts)


def _norms(pair: TensorPair) -> Norms | None:
    one, other, before = pair.reference, pair.candidate, pair.before
    # One pass over memory for all three norms: comparing 2 GB with 2 GB takes 0.50 s, where numpy's reading and
    # subtracting takes 0.34 s.
    known = fused_norms(one, other, before, pair.parts)
    if known is not None:
        return Norms(known.size, known.difference, known.size if before is None else known.moved, is_constant(one))
    if not (is_finite(one) and is_finite(other)):
        return None
    # What it was before is what is not finite.
    return Norms(norm(one), distance(one, other), float("inf"), is_constant(one))


def starts_apart(join: Join, reference: Trace, candidate: Trace) -> list[str]:
    """Returns the reference's weights and statistics that the candidate starts from other values of.

    Values are apart where a first step would not be judged the same: by more than ``2^16 u`` of their norm.

    Args:
      join: names and layouts of both sides.
      reference: its trace.
      candidate: its trace.
    """
    one_file, other_file = reference.init(), candidate.init()
    apart = []
    for key, text in join.ordered(one_file.names()):
        other = join.read(key, other_file) if key.quantity in ("var", "stat") else None
        one = one_file.read(text)
        if other is None or one.dtype.kind != "f":
            continue
        # The coarser type of the two: weights saved in float32 and read into float64 are the same weights.
        if other.dtype.kind != "f":
            apart.append(key.name)
            continue
        allowed = FIXED_MARGIN * max(unit_roundoff(one.dtype), unit_roundoff(other.dtype)) * norm(one)
        # "not <=" so that NaN counts as apart.
        if one.shape != other.shape or not distance(one, other) <= allowed:
            apart.append(key.name)
    return apart
