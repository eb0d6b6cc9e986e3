"""Each side against itself: whether it can be compared at all, and by how much it wanders."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parity.experiment.recording import Recorded
from parity.judge.repeatability import Repeat, judge_repeat
from parity.judge.result import Level

MOST_OPS_SHOWN = 3  # names of ops


def judge_repeats(recorded: Recorded) -> list[Repeat]:
    """Compares what each side did with what it did when asked the same once more; the reference first."""
    if recorded.measured is not None:
        return recorded.measured.repeats
    traces = recorded.lockstep
    once = {"reference": traces.reference32, "candidate": traces.candidate32}
    return [
        judge_repeat(side, once[side], recorded.repeats[side], recorded.repeats[side].step_numbers)
        for side in once
        # A reference that races differs from itself by design: its races say so, each by its name.
        if side in recorded.repeats and not (side == "reference" and recorded.races)
    ]


def set_aside_wandering(
    levels: Mapping[str, Level], repeats: Sequence[Repeat], draws: Sequence[str] = ()
) -> dict[str, Level]:
    """Returns levels, different ones incomparable where the reference does not repeat itself: nothing can match it.

    Args:
      levels: name to level.
      repeats: of both sides.
      draws: names of the reference's ops that draw, the fact `random_ops`.
    """
    wild = next((repeat for repeat in repeats if repeat.side == "reference" and not repeat.comparable), None)
    if wild is None:
        return dict(levels)
    # Without the name of the side, which the note begins with.
    how = wild.sentence.partition(": ")[2]
    note = (
        f"the reference does not repeat itself: {how}. An op draws other random numbers in every "
        f"run{_named(draws)}: leave it out, or feed it"
    )
    return {name: _wandering(level, note) for name, level in levels.items()}


def _wandering(level: Level, note: str) -> Level:
    level = replace(level, notes=[note, *level.notes])
    return replace(level, verdict="incomparable", causes=[]) if level.verdict == "different" else level


def _named(draws: Sequence[str]) -> str:
    if not draws:
        return ""
    more = f" and {len(draws) - MOST_OPS_SHOWN} more" if len(draws) > MOST_OPS_SHOWN else ""
    return f" ({', '.join(draws[:MOST_OPS_SHOWN])}{more})"
