"""Turns recorded trajectories into the verdict of level 3, with its false alarms and its power."""

from collections.abc import Sequence

from parity.case import Case
from parity.judge.levels.trajectory import (
    LIMIT,
    FalseAlarms,
    Trajectories,
    false_alarms,
    judge_trajectory,
    stray_of_candidate,
)
from parity.judge.result import Check, Level, Verdict, decide
from parity.judge.unmatched_slots import after_the_last, set_aside_slots
from parity.mapping.trace_map import Join
from parity.run.levels import find_first
from parity.run.recorded import Playing
from parity.run.trajectory import record_trajectories
from parity.run.trajectory_power import Seen, measure_power
from parity.trace import Trace

# Above this rate of false verdicts, by what held-out runs did, a difference says nothing about the port.
MOST_FALSE_ALARMS = 0.01


def decide_trajectory(case: Case, playing: Playing, join: Join, reference: Trace) -> tuple[Level, Trace]:
    """Records and decides level 3; returns it and the candidate's unperturbed run.

    Args:
      case: what is run.
      playing: the sides, and what they are fed.
      join: names and layouts.
      reference: the reference's unperturbed float32 run.

    Raises:
      SideFailed: a side could not do its part.
    """
    candidate, trajectories = record_trajectories(playing, join, reference)
    runs = (after_the_last(reference), after_the_last(candidate))
    checks = set_aside_slots(judge_trajectory(trajectories), join, *runs)
    level = level_of(checks, trajectories)
    if playing.racing:
        level.notes.append(
            f"not followed, for the reference writes them in no order: {', '.join(sorted(playing.racing))}"
        )
    level.first_difference = find_first(join, checks, {"free": (reference, candidate)})
    if not candidate.facts.get("ranks_agree", True):
        level.verdict = "different"
        level.notes.insert(0, "the ranks hold different weights: some gradient or update is not shared between them")
    if level.verdict == "same":
        power = measure_power(case, playing, join, reference, trajectories)
        level.notes += told(power)
    return level, candidate


def level_of(checks: list[Check], trajectories: Trajectories) -> Level:
    """Returns the level without its power: the verdict, what it rests on, and how often it is wrong about right ports."""
    alarms = false_alarms(trajectories)
    stray = stray_of_candidate(trajectories)
    verdict: Verdict = decide(checks)
    reason = (
        f"training strays {stray:.3g} times as far as rounding does (limit {LIMIT:g}), "
        f"by {len(trajectories.envelope)} perturbed runs over {len(trajectories.spots):,} tensors"
    )
    if verdict == "different" and alarms.of_verdict > MOST_FALSE_ALARMS:
        verdict = "incomparable"
        reason = (
            f"the reference strays from itself: {_counted(alarms)}, so that {stray:.3g} says nothing about the port"
        )
    return Level("trajectory", verdict, reason, checks, notes=[_told_alarms(alarms, len(trajectories.candidate))])


def told(power: Sequence[Seen]) -> list[str]:
    """Returns what the level would have seen of bugs planted in this port, and what not, in words."""
    notes = []
    for seen, words in ((True, "would have seen"), (False, "would not have seen")):
        found = [f"{each.words} ({each.stray:,.0f}, limit {LIMIT:g})" for each in power if each.seen == seen]
        if found:
            notes.append(f"power: {words} {', '.join(found)}")
    return notes


def _told_alarms(alarms: FalseAlarms, runs: int) -> str:
    return (
        f"false alarms: {_counted(alarms)}; the verdict takes the median of {runs} runs, which by that rate calls "
        f"{alarms.of_verdict:.2%} of right ports different (at most {alarms.of_verdict_at_most:.2%})"
    )


def _counted(alarms: FalseAlarms) -> str:
    return (
        f"{alarms.outside} of {alarms.runs} held-out runs of the reference stray beyond the limit "
        f"({alarms.outside / max(alarms.runs, 1):.0%}, 95% interval {alarms.low:.1%} to {alarms.high:.1%})"
    )
