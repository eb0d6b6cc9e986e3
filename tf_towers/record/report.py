"""Says on stderr what was recorded, which hazards there are, and what could not be identified."""

import sys
import time
from typing import TYPE_CHECKING, List, Optional, Sequence

from tf_towers.record.plan import Section, changed_after_combining

if TYPE_CHECKING:
    from tf_towers.record.recorded_steps import RecordedSteps
    from tf_towers.record.recorder import Recorder


PROGRESS_SECONDS = 5.0


class Progress:
    """Prints the plan of each training step as soon as it is known, and now and then how many steps are recorded.

    Args:
      wanted: number of steps to record, or None for all.
    """

    def __init__(self, wanted: Optional[int]) -> None:
        self._of = f" of {wanted}" if wanted is not None else ""
        self._printed = time.time()
        self._planned: List[Section] = []

    def __call__(self, recorded: "RecordedSteps") -> None:
        """Takes the `RecordedSteps` after a step."""
        for section in recorded.sections:
            # Each once, when it first trains: a GAN's second optimizer may come in a later step.
            if section not in self._planned:
                self._planned.append(section)
                _line(f"record: {plan_of(section, recorded.combine_of(section))}")
        # Now and then: steps of a small model take milliseconds, and stderr may be a script's log.
        if time.time() - self._printed > PROGRESS_SECONDS:
            self._printed = time.time()
            _line(f"record: step {recorded.count}{self._of}")


def print_planning(ops: int) -> None:
    """Prints that the plan of a training step is being made, of a graph with so many ops."""
    _line(f"record: plans a training step of a graph with {ops:,} ops")


def plan_of(section: Section, combine: str) -> str:
    """Returns in one line what was seen of one optimizer's update: towers, combination, clipping, optimizer."""
    towers = len(section.towers)
    scopes = ", ".join(tower.scope or "(no scope)" for tower in section.towers)
    joined = {"mean": "averaged", "sum": "summed"}.get(combine, f"combined in another way ({combine})")
    gradients = f"gradients {joined} over {towers} towers" if towers > 1 else "gradients of 1 tower"
    clip = ", clipped or scaled before the update" if changed_after_combining(section) else ""
    optimizer = type(section.apply.optimizer).__name__
    return f"{section.apply.op.name}: {gradients}{clip}, applied by {optimizer}; towers: {scopes or 'none'}"


def print_report(recorder: "Recorder", out: str, whole: bool) -> None:
    """Prints a few lines; the script's own stdout is left alone."""
    say = _line
    calls = recorder.calls
    if not recorder.recorded:
        _print_nothing_found(recorder)
        return
    state = "" if whole else "; the script did not end well, so the trace says that it is not complete"
    say(f"record: {recorder.recorded} steps in {out}{state}")
    for hazard in recorder.hazards.values():
        say(f"  hazard {hazard.name}: {hazard.evidence}.")
        say(f"    {hazard.meaning}")
    for section in recorder.sections:
        if recorder.clip_never_in_effect(section):
            say(f"  {section.apply.op.name}: clipping never took effect in the recorded steps: it is not judged")
    for name, reason in sorted(recorder.left_out.items()):
        say(f"  not recorded: {name}: {reason}")
    for section in recorder.sections:
        if not section.towers:
            names = ", ".join(variable.op.name for _, variable in section.apply.pairs[:5])
            say(f"  no tower found behind {section.apply.op.name}, which updates {names}")
    # An optimizer that is only built, or trained after --steps: that it is not in the trace should surprise nobody.
    unused = len(calls.applies) - len(recorder.sections)
    if unused:
        say(f"  {unused} calls of apply_gradients were in no run that was recorded")


def print_failure(error: BaseException) -> None:
    """Prints that recording stopped, and why."""
    _line(f"record: stopped recording: {type(error).__name__}: {error}")


def print_shadow(told: str) -> None:
    """Prints what became of the float64 shadow."""
    _line("  " + told)


def _print_nothing_found(recorder: "Recorder") -> None:
    calls = recorder.calls
    _line("record: expected a run of a train op, got none. No trace was written.")
    # What was seen tells where to look: no call at all is a script that ran something else, calls without a step never
    # trained.
    _line(f"  calls for gradients: {_names([call.losses[0].name for call in calls.gradients])}")
    _line(f"  calls of apply_gradients: {_names([call.op.name for call in calls.applies])}")
    _line(f"  training steps made: {recorder.seen}")
    if calls.unknown:
        _line(f"  gradients with respect to what is no variable: {_names(calls.unknown)}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    # At once: scripts are watched while they train, and killed.
    sys.stderr.flush()
