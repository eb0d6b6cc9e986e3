"""Judges two traces that came without float64 shadows: weaker evidence, with allowances that nobody measured."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from parity.judge.fast_metrics import Measured, measure
from parity.judge.levels.function import judge_counter
from parity.judge.metrics import distance, is_constant, norm, unit_roundoff
from parity.judge.result import EXACT, NOT_IN_REFERENCE, Check, Verdict, judge_exact, refuse
from parity.mapping.trace_map import OPTIONAL, Join
from parity.trace import TensorFile, TensorKey, Trace

MARGIN = 2.0**16
FAINT = 1e-3
UPDATED = frozenset(["var", "stat", "ema"])


def judge_plain(
    join: Join,
    reference: Trace,
    candidate: Trace,
    steps: Sequence[int],
    judged: Callable[[int], None] = lambda count: None,
) -> list[Check]:
    """Judges every tensor of every step: within ``2^16 u S`` for each step made so far.

    u is the unit roundoff of the tensor's dtype. S is the tensor's norm; for gradients at least a thousandth of the norm of
    all gradients of the step, since a gradient that is zero but for rounding has a norm of rounding; for weights and
    statistics the norm of the update. What an optimizer makes of a gradient that is zero but for rounding is not judged:
    dividing one rounding by another gives any number.

    Args:
      join: names and layouts of both sides.
      reference: its trace.
      candidate: its trace.
      steps: those that both have.
      judged: told after each step how many are done.
    """
    checks: list[Check] = []
    previous = reference.init()
    for made, step in enumerate(steps, start=1):
        one_file, other_file = reference.step(step), candidate.step(step)
        for text in join.unjoined(one_file, other_file):
            checks.append(Check("free", step, text, "incomparable", note=NOT_IN_REFERENCE))
        pairs = [
            _read(join, key, text, step, one_file, other_file, previous) for key, text in join.ordered(one_file.names())
        ]
        gradients = [each.measured.size for each in pairs if each.measured and each.key.quantity == "grad"]
        all_gradients = float(sum(size * size for size in gradients)) ** 0.5
        empty: set[str] = set()
        pairs.reverse()
        while pairs:  # each goes as its check comes: of 100,000 tensors both would not be small
            pair = pairs.pop()
            check = pair.check or _judged(pair, step, made, all_gradients)
            if pair.key.quantity in ("grad", "tower_grad") and check.size < 1e-8 * all_gradients:
                empty.add(pair.key.name)
            if pair.key.quantity in ("slot", "var", "ema") and pair.key.name in empty and check.verdict == "different":
                note = "not judged: its gradient is structurally zero"
                check = check._replace(verdict="not_run", note=note)
            checks.append(check)
        previous = one_file
        judged(made)
    return checks


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
        allowed = MARGIN * max(unit_roundoff(one.dtype), unit_roundoff(other.dtype)) * norm(one)
        if one.shape != other.shape or not distance(one, other) <= allowed:
            apart.append(key.name)
    return apart


class _Pair(NamedTuple):
    key: TensorKey
    text: str
    unit: float = 0.0
    measured: Measured | None = None
    updated: bool = False
    constant: bool = False
    check: Check | None = None


def _read(
    join: Join, key: TensorKey, text: str, step: int, one_file: TensorFile, other_file: TensorFile, previous: TensorFile
) -> _Pair:
    one, other = one_file.read(text), join.read(key, other_file)
    if key.quantity in OPTIONAL:
        return _Pair(key, text, check=judge_counter("free", step, key, text, one, other))
    alike = other is not None and one.dtype == other.dtype and one.shape == other.shape
    if other is None or not alike or key.quantity in EXACT or one.dtype.kind != "f":
        refused = refuse("free", step, text, one, other)
        assert refused or other is not None
        return _Pair(key, text, check=refused or judge_exact("free", step, text, one, other))  # type: ignore[arg-type]
    updated = key.quantity in UPDATED and text in previous
    measured = measure(one, other, previous.read(text) if updated else None)
    check = refuse("free", step, text, one, other) if measured is None else None
    if measured is None and check is None:  # what it was before is what is not finite
        measured = Measured(norm(one), distance(one, other), float("inf"))
    return _Pair(key, text, unit_roundoff(one.dtype), measured, updated, is_constant(one), check)


def _judged(pair: _Pair, step: int, made: int, all_gradients: float) -> Check:
    assert pair.measured is not None
    size, difference, moved = pair.measured
    scale, stored = size, 0.0
    if pair.key.quantity in ("grad", "tower_grad", "clip", "tower_clip"):
        scale = max(size, FAINT * all_gradients)
    elif pair.updated:
        scale, stored = moved, 4 * pair.unit * size
    allowed = made * (MARGIN * pair.unit * scale + stored)
    verdict: Verdict = "same" if difference <= allowed else "different"
    return Check("free", step, pair.text, verdict, difference, allowed, scale, size, "", pair.constant)
