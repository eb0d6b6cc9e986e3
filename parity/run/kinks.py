"""Judges again beside a kink, where a tie that rounding breaks leaves the gradient without a value."""

from collections.abc import Sequence
from typing import Protocol

from parity.judge.numbers import distance
from parity.judge.result import Check
from parity.run.recorded import Recorded
from parity.trace import parse_key

NOTE = "at a kink: two things tie that rounding tells apart; judged with weights moved by up to 2^-30 of themselves"


class Beside(Protocol):
    """Runs both sides from weights that `moved_aside` moved alike, and judges them by the rules of level 1."""

    def alone(self, step: int) -> list[Check]:
        """Returns the checks of one step by itself, its counters the reference's."""

    def in_lockstep(self) -> list[Check]:
        """Returns the checks of all steps in their order."""

    def free(self, lockstep: Sequence[Check]) -> list[Check]:
        """Returns the checks of the runs that nobody resets; `lockstep` says what each step rounds."""


def settle_kinks(checks: list[Check], beside: Beside) -> list[Check]:
    """Returns the checks of level 1, those judged beside a kink that differ at it and nowhere near; what remains is a bug.

    At a maximum of two equal values, or a ReLU of zero, a function has no gradient: which of its one-sided ones a program
    computes is decided by rounding, in float64 as in float32. Such a tie is gone once the weights have moved by the least
    amount; a bug is not. So where numbers differ both sides run again from weights moved alike, and are judged by the same
    allowances. Where the first step that differs does so beside the kink too, only that step is looked at. Ties that no
    move of the weights breaks (zero weights, inputs that are there twice) stay, and a port that breaks them otherwise stays
    different.

    Args:
      checks: of level 1.
      beside: what runs and judges the sides beside a kink.
    """
    lost = [check for check in checks if check.verdict != "same" and check.verdict != "not_run"]
    numbers = all(check.verdict == "different" and check.run in ("lockstep", "free") for check in lost)
    if not lost or not numbers:
        return checks
    first = next((check.step for check in lost if check.run == "lockstep"), None)
    alone = beside.alone(first) if first is not None else []
    if _different(alone):
        return _settled(checks, lost, alone)
    again = beside.in_lockstep()
    if any(check.run == "free" for check in lost):
        again += beside.free(again)
    return _settled(checks, lost, again)


def _settled(checks: Sequence[Check], lost: Sequence[Check], beside: Sequence[Check]) -> list[Check]:
    found = {check[:3]: check._replace(note=NOTE) for check in beside if check.verdict == "same"}
    places = {check[:3] for check in lost}
    return [found.get(check[:3], check) if check[:3] in places else check for check in checks]


def _different(checks: Sequence[Check]) -> bool:
    return any(check.verdict not in ("same", "not_run") for check in checks)


def apart_at_kinks(checks: Sequence[Check], recorded: Recorded) -> dict[tuple[int, str], float]:
    """Returns by step and tensor how far the sides are apart in float64 where they were judged beside a kink."""
    traces, apart = recorded.lockstep, {}
    for check in checks:
        if check.note == NOTE and check.run == "lockstep":
            other = recorded.join.read(parse_key(check.key), traces.candidate64.step(check.step))
            one = traces.reference64.step(check.step).read(check.key)
            apart[check.step, check.key] = distance(one, other) if other is not None else 0.0
    return apart


def kink_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of kinks."""
    found = [check for check in checks if check.note == NOTE]
    if not found:
        return []
    steps = sorted({check.step for check in found})
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"
    tensors = f"{len(found)} {'tensor' if len(found) == 1 else 'tensors'}"
    return [f"{tensors} of {where}, {found[0].key} first, {'is' if len(found) == 1 else 'are'} {NOTE}"]
