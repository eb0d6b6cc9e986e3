"""Judges two traces that came without float64 shadows: weaker evidence, with allowances that nobody measured."""

from collections.abc import Callable, Sequence

from parity.judge.compare import EXACT, judge_exact, refuse
from parity.judge.join import OPTIONAL, Join
from parity.judge.level1 import judge_counter
from parity.judge.numbers import distance, is_constant, norm, unit_roundoff
from parity.judge.result import Check
from parity.trace import Key, TensorFile, Trace

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
            checks.append(Check("free", step, text, "incomparable", note="the reference has no such tensor"))
        gradients = [norm(one_file.read(text)) for text in one_file.names() if text.startswith("grad/")]
        all_gradients = float(sum(size * size for size in gradients)) ** 0.5
        empty: set[str] = set()
        for key, text in join.ordered(one_file.names()):
            check = _judged(join, key, text, step, made, one_file, other_file, previous, all_gradients)
            if key.quantity in ("grad", "tower_grad") and check.size < 1e-8 * all_gradients:
                empty.add(key.name)
            if key.quantity in ("slot", "var", "ema") and key.name in empty and check.verdict == "different":
                note = "not judged: its gradient is zero but for rounding"
                check = check._replace(verdict="not_run", note=note)
            checks.append(check)
        previous = one_file
        judged(made)
    return checks


def _judged(
    join: Join,
    key: Key,
    text: str,
    step: int,
    made: int,
    one_file: TensorFile,
    other_file: TensorFile,
    previous: TensorFile,
    all_gradients: float,
) -> Check:
    one, other = one_file.read(text), join.read(key, other_file)
    if key.quantity in OPTIONAL:
        return judge_counter("free", step, key, text, one, other)
    refused = refuse("free", step, text, one, other)
    if refused or other is None:
        assert refused
        return refused
    if key.quantity in EXACT or one.dtype.kind != "f":
        return judge_exact("free", step, text, one, other)
    unit, size = unit_roundoff(one.dtype), norm(one)
    scale, stored = size, 0.0
    if key.quantity in ("grad", "tower_grad", "clip", "tower_clip"):
        scale = max(size, FAINT * all_gradients)
    elif key.quantity in UPDATED and text in previous:
        scale, stored = distance(one, previous.read(text)), 4 * unit * size
    difference = distance(one, other)
    allowed = made * (MARGIN * unit * scale + stored)
    verdict = "same" if difference <= allowed else "different"
    return Check("free", step, text, verdict, difference, allowed, scale, size, "", is_constant(one))  # type: ignore[arg-type]
