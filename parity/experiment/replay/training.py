"""Judges the `train` of a port's program itself, on as many ranks as the script has towers, by the shadow's free run."""

from collections.abc import Sequence
from dataclasses import replace

from parity.experiment.diagnosis import outliving
from parity.experiment.replay.free_run import FreeRuns, start_of, without_averages
from parity.experiment.replay.levels import Judged
from parity.experiment.replay.orders import FREE_RUN_IN_OTHER_ORDER
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.training_causes import causes_of_training
from parity.judge.level import first_difference
from parity.judge.levels.function import judge_free
from parity.judge.metrics import distance, norm
from parity.judge.result import Check, Level, decide, what_differs
from parity.mapping.states import translated
from parity.mapping.trace_map import Join
from parity.trace import Trace, key_of, parse_key
from parity.trace.arrays import Tensors

TRAINING = "train"
LEFT_BY_UPDATES = ("var", "slot", "stat", "ema")
TRAINED_THE_SAME = "train() itself on {ranks} ranks in float64"
NOT_TRAINED = "train() was not run: {why}"
AS_FREE = "as near to the port's free run, which is the same as the script's, as that may be to the script's"
# Of that run each step alone was judged, and not what it carries from one to the next.
AS_FREE_IN_OTHER_ORDER = (
    "as near to the port's free run, which takes the other order of the script's race, as that may be to the script's"
)
AS_ROUNDED = "as near as a decay that is computed in float32 is to the shadow's, which is in float64"
# 1 - (1 + n) / (10 + n) rounds twice in float32, each time by 2^-24 of at most 1; the shadow has neither rounding. So a
# share of the way from an average to its weight is 2^-23 of that way off: 1.2e-4 of the share for a decay of 0.999.
ROUNDING_OF_DECAY = 2.0**-23
BY_OWN_RUN = "{count:,} of them are not the script's but {note}"
PARTED = "train() itself does otherwise than the steps that were replayed, which are the same as the script's"


def with_training(judged: Sequence[tuple[ReplayedPort, Judged]]) -> list[tuple[ReplayedPort, Judged]]:
    """Returns what was judged with what the port's own training program leaves after each of its updates.

    The program gets the recorded batches, first weights and draws, the rates that the script feeds, and nothing else: what
    it combines, clips, updates and schedules, and which of several optimizers has its turn, is its own.

    Args:
      judged: every part of the script, with the port that was replayed, which has a program.
    """
    why = next((_why_not(each) for _, each in judged if _why_not(each)), "")
    if why:
        return [(replayed, _with_function(each, _function(each).with_notes(why))) for replayed, each in judged]
    sections = [replayed.write_training(_start(replayed, each.free)) for replayed, each in judged]
    trained = judged[0][0].train(sections)
    return [
        (replayed, _with_function(each, _with_program(_function(each), replayed, each.free, trace)))
        for (replayed, each), trace in zip(judged, trained, strict=True)
    ]


def _why_not(judged: Judged) -> str:
    """Why the program is not run, "" where it is."""
    verdict = _function(judged).verdict
    if verdict != "same":
        return NOT_TRAINED.format(why=f"what was replayed is {verdict}")
    return "" if judged.free else NOT_TRAINED.format(why="there is no free run")


def _function(judged: Judged) -> Level:
    return judged.levels[0]


def _with_function(judged: Judged, function: Level) -> Judged:
    return judged._replace(levels=[function, *judged.levels[1:]])


def _start(replayed: ReplayedPort, runs: FreeRuns | None) -> Tensors:
    assert runs is not None
    part = replayed.part
    # Of several optimizers one may train later than in the first step: what the script has there is in no step of its own.
    state = runs.states.step(part.steps[0])
    return translated(replayed.join, start_of({text: state.read(text) for text in state.names()}, part.begins))


def _with_program(function: Level, replayed: ReplayedPort, runs: FreeRuns | None, trained: Trace) -> Level:
    """Level 1 of one part with what the program leaves after each of its updates."""
    assert runs is not None
    checks = _judge(replayed, runs, trained, function.checks)
    together = [*function.checks, *checks]
    verdict = decide(checks)
    if verdict == "same" and trained.facts.get("ranks_agree", True):
        return replace(function, checks=together).with_notes(_in_words(replayed, checks))
    first = first_difference(replayed.join, checks, {TRAINING: (runs.reference, trained)})
    causes, notes = outliving(lambda: causes_of_training(replayed, runs, trained, first) if first else [])
    ended = [] if trained.facts.get("ranks_agree", True) else ["the ranks of train() end with different weights"]
    return replace(
        function,
        checks=together,
        verdict="incomparable" if verdict == "incomparable" else "different",
        reason=what_differs(together) or "the ranks of train() part",
        first_difference=first,
        causes=causes or [],
    ).with_notes(PARTED, *ended, *notes)


def trains_itself(level: Level) -> bool:
    """Returns whether the port's own program trains as the script does, its combination of gradients included."""
    return level.verdict == "same" and any(check.run == TRAINING for check in level.checks)


def _in_words(replayed: ReplayedPort, checks: Sequence[Check]) -> str:
    judged = [check for check in checks if check.verdict == "same"]
    highest = max((check.multiple for check in judged), default=0.0)
    farthest = max((check.of_scale for check in judged), default=0.0)
    averaged = any(parse_key(check.key).quantity == "ema" for check in judged)
    what = "weights, slots, statistics and averages" if averaged else "weights, slots and statistics"
    words = (
        f"{TRAINED_THE_SAME.format(ranks=replayed.part.towers)}, fed what was recorded: {len(judged):,} {what} after "
        f"{len(replayed.part.steps)} updates, at most {highest:.2g} of the tolerance, {farthest:.1g} of the scale away"
    )
    counts = {note: sum(check.note == note for check in judged) for note in (AS_FREE, AS_FREE_IN_OTHER_ORDER)}
    return "; ".join([words, *(BY_OWN_RUN.format(count=count, note=note) for note, count in counts.items() if count)])


def _judge(replayed: ReplayedPort, runs: FreeRuns, trained: Trace, lockstep: Sequence[Check]) -> list[Check]:
    found = judge_free(replayed.join, runs.reference, trained, runs.spread, lockstep)
    left = [check for check in found if parse_key(check.key).quantity in LEFT_BY_UPDATES]
    free = {(check.step, check.key): check for check in lockstep if check.run == "free"}
    if replayed.part.held and any(check.verdict == "different" for check in left):
        # The shadow takes what is held from the recording in every step, in float32, and so did the port's free run.
        start = without_averages(_start(replayed, runs))
        runs = runs._replace(candidate=replayed.run_freely(start, None, "carried"))
    judged = [_by_own_free_run(replayed, runs, trained, check, free)._replace(run=TRAINING) for check in left]
    judged = [by_rounded_decay(replayed.join, runs, trained, check) for check in judged]
    # Averages follow weights: where those are the port's own run's, no recorded average is theirs.
    own = any(check.note in (AS_FREE, AS_FREE_IN_OTHER_ORDER) for check in judged)
    return [check for check in judged if not own or parse_key(check.key).quantity != "ema"]


def by_rounded_decay(join: Join, runs: FreeRuns, trained: Trace, check: Check) -> Check:
    """Judges a moving average by what the rounding of its decay in float32 makes of it, step by step."""
    key = parse_key(check.key)
    if key.quantity != "ema" or check.verdict != "different":
        return check
    weight, way = key_of("var", key.name), 0.0
    for number in runs.reference.step_numbers:
        if number <= check.step:
            way += norm(runs.reference.step(number).read(weight) - runs.states.step(number).read(check.key))
    one, other = runs.reference.step(check.step).read(check.key), join.read(key, trained.step(check.step))
    if other is None or one.shape != other.shape or not distance(one, other) <= ROUNDING_OF_DECAY * way:  # NaN is not
        return check
    return check._replace(verdict="same", allowed=ROUNDING_OF_DECAY * way, note=AS_ROUNDED)


def _by_own_free_run(
    replayed: ReplayedPort, runs: FreeRuns, trained: Trace, check: Check, free: dict[tuple[int, str], Check]
) -> Check:
    """Judges by the port's free run where rules set aside how that differs from the script's.

    At a maximum that is there twice the two frameworks may take different ones; the port's two runs are of one framework,
    take the same, and differ by rounding only. So where the script races, and the port takes the other order.
    """
    own = free.get((check.step, check.key))
    # A script that races leads the port's free run elsewhere, step by step as right as the script's.
    in_other_order = own is not None and own.note == FREE_RUN_IN_OTHER_ORDER
    as_right = own is not None and (own.verdict == "same" or in_other_order)
    if check.verdict != "different" or not as_right:
        return check
    key = parse_key(check.key)
    one = replayed.join.read(key, runs.candidate.step(check.step))
    other = replayed.join.read(key, trained.step(check.step))
    if one is None or other is None or one.shape != other.shape:
        return check
    # Where the port's own run is no farther from the script's than is allowed, nothing was set aside: then to be as near to
    # that run would allow twice the tolerance.
    script = runs.reference.step(check.step).read(check.key)
    if distance(one, script) <= check.allowed or not distance(one, other) <= check.allowed:  # NaN is not
        return check
    return check._replace(
        verdict="same", difference=distance(one, other), note=AS_FREE_IN_OTHER_ORDER if in_other_order else AS_FREE
    )
