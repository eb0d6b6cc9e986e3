"""Level 4: decides what the port did at its level of mixed precision beside its own float32."""

from collections.abc import Sequence

from parity.diagnose.detectors.mixed_precision import find_mixed_causes
from parity.judge.levels.mixed import Halves, all_skipped, judge_mixed, judge_scale
from parity.judge.metrics import worst
from parity.judge.result import Check, FirstDifference, Level, decide, what_differs
from parity.trace import Trace, parse_key


def judge_halves(halves: Halves) -> Level:
    """Decides level 4."""
    checks = judge_scale(halves) + judge_mixed(halves)
    level = Level("mixed", decide(checks), _reason(checks), checks)
    level.first_difference = first_difference(halves, checks)
    if all_skipped(halves.mixed):
        level.verdict = "different"
        level.reason = "every step is skipped: the gradients overflow at every loss scale that was tried"
    level.causes = find_mixed_causes(level.first_difference, halves)
    level.notes = _notes(halves)
    return level


def first_difference(halves: Halves, checks: Sequence[Check]) -> FirstDifference | None:
    """Returns the first tensor that is not the same, in the order of the steps and of computation."""
    found = [check for check in checks if check.verdict in ("different", "incomparable")]
    if not found:
        return None
    check = min(found, key=lambda each: (each.run != "lockstep", each.step))
    key = parse_key(check.key)
    if check.run != "lockstep" or key.quantity == "state":
        return FirstDifference(check, key.quantity, key.name, key.tower, None)
    one, other = halves.full.step(check.step), halves.mixed.step(check.step)
    both = check.key in one and check.key in other
    shown = worst(one.read(check.key), other.read(check.key)) if both else None
    return FirstDifference(check, key.quantity, key.name, key.tower, shown)


def _reason(checks: Sequence[Check]) -> str:
    judged = [check for check in checks if check.verdict != "not_run"]
    highest = max((check.multiple for check in judged), default=0.0)
    return what_differs(checks) or f"{len(judged):,} tensors; at most {highest:.2g} of what half precision may round"


def _notes(halves: Halves) -> list[str]:
    notes = [f"{halves.opt_level} in {halves.dtype}; the names are the port's"]
    for what, trace in (("lockstep", halves.mixed), ("free run", halves.free)):
        count = sum(_skipped(trace, step) for step in trace.step_numbers)
        if count:
            total = len(list(trace.step_numbers))
            notes.append(f"{what}: {count} of {total} steps were skipped because gradients overflowed")
    return notes


def _skipped(trace: Trace, step: int) -> bool:
    file = trace.step(step)
    return "state/skipped" in file and bool(file.read("state/skipped"))
