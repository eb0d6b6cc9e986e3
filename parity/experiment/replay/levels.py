"""Decides levels 1 and 2 of a replay: the port in two precisions against the script and its float64 shadow."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from parity.diagnose import Evidence, find_causes
from parity.diagnose.interventions import with_cut
from parity.diagnose.located.search import with_causes_at
from parity.experiment.diagnosis import refine, with_experiments
from parity.experiment.layers import locate_first, with_location
from parity.experiment.levels import judge_single
from parity.experiment.moved_statistics import moved_statistics
from parity.experiment.recording import Recorded
from parity.experiment.rejudge.ill_conditioned import empty_notes, set_aside_rounding
from parity.experiment.rejudge.non_differentiable import kink_notes
from parity.experiment.rejudge.rules import rejudge
from parity.experiment.replay.free_run import SAME_STEP_BY_STEP, FreeRuns, counts_otherwise, train_freely
from parity.experiment.replay.ill_conditioned import beside_notes, race_notes, rules_of_replay
from parity.experiment.replay.orders import OtherOrder, ScriptRace
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.rerun import Rerun
from parity.experiment.replay.script import Part
from parity.experiment.runs import REPEATED
from parity.experiment.sides.recorded_side import RecordedSide
from parity.experiment.spec import Progress
from parity.judge.imprecise_ops import inexact_notes
from parity.judge.level import first_difference, level_from, reason_from
from parity.judge.levels.function import Lockstep, judge_free, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.output_layouts import take_layouts
from parity.judge.port_values import judge_own_values, written_notes
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.judge.tensor_details import Pairs
from parity.judge.unmatched_slots import slot_notes, slots_aside
from parity.mapping.trace_map import Join
from parity.trace import Trace, quantity_of, select

CARRIED = "in lockstep, each step from the recorded state, and free-running from the first weights"
LOADED = (
    "in lockstep, each step from the recorded state, and free-running from the first of these, slots and counters included, "
    "for the recording does not start with the training: what the port's optimizer begins with was not judged"
)
# At first slots are empty: what hides there shows in the steps after. Three, for each is searched by every hypothesis.
MOST_LATER_CHECKS = 3


class Runs(NamedTuple):
    """What a port did beside the script.

    Fields:
      lockstep: each step from the recorded state.
      free: with nobody resetting it, or None.
      why: why there is no free run.
    """

    lockstep: Lockstep
    free: FreeRuns | None
    why: str


class Judged(NamedTuple):
    """What was decided of one part.

    Fields:
      levels: 1 and 2, or those that there are.
      notes: on the part.
      pairs: by level, the traces of each run, reference and candidate.
      free: the free runs of both, None where there are none.
    """

    levels: list[Level]
    notes: list[str]
    pairs: dict[str, Pairs]
    free: FreeRuns | None = None


class Script(NamedTuple):
    """One part of a recorded script, and the port that replays it.

    Fields:
      replayed: the port of the part.
      shadow: the float64 shadow of the recorded trace.
      references: the part as recorded and as its shadow has it, in float32 and float64.
      states: the recorded state before each step.
      orders: what the part's steps leave in the order that a race did not take.
      out: folder for what is written.
    """

    replayed: ReplayedPort
    shadow: Trace
    references: tuple[Trace, Trace]
    states: Trace
    orders: OtherOrder
    out: Path


def judge_part(replayed: ReplayedPort, shadow: Trace, out: Path, tick: Progress) -> Judged:
    """Runs a port in both precisions and judges it.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      out: folder for what is written.
      tick: told how far it is: what, done, total.
    """
    script = _prepare(replayed, shadow, out)
    runs = _record(script)
    tick("judge what was replayed", 0, 1)
    # Once, before anything is judged: the join reads outputs in these layouts from here on, of later runs too.
    layouts = take_layouts(replayed.join, runs.lockstep.reference64, runs.lockstep.candidate64)
    function = _decide(script, runs)
    runs, function = _set_aside_rounding(script, runs, function)
    function = function.with_notes(*_notes_of_runs(script, runs, function), *layouts)
    single = _decide_in_float32(script, runs, function)
    notes = race_notes(replayed.part, runs.lockstep, shadow, function.checks) + script.orders.notes(function.checks)
    tick("judge what was replayed", 1, 1)
    return Judged([function, single], notes, _pairs(runs), runs.free)


def _decide(script: Script, runs: Runs) -> Level:
    """Returns level 1 of what was recorded."""
    checks = _judge(script.replayed, runs)
    checks = _rejudge(script, runs, checks)
    level = _level(script.replayed, runs, checks)
    return _diagnose(script.replayed, runs, level)


def _prepare(replayed: ReplayedPort, shadow: Trace, out: Path) -> Script:
    side = RecordedSide(replayed.part, shadow, out)
    references = side.run("float32", "float32"), side.run("float64", "float64")
    return Script(replayed, shadow, references, side.states("reference-states"), OtherOrder(replayed.part, shadow), out)


def _record(script: Script) -> Runs:
    replayed = script.replayed
    traces = Lockstep(*script.references, replayed.run("float32"), replayed.run("float64"), script.states)
    return Runs(traces, *train_freely(replayed, script.shadow, script.out))


def _judge(replayed: ReplayedPort, runs: Runs) -> list[Check]:
    part, join = replayed.part, replayed.join
    traces, free, _ = runs
    checks = judge_initial_slots(join, _fresh(part), replayed.initial_slots) + judge_own_values(replayed.written)
    checks += judge_init(join, traces.reference64.init(), traces.candidate64.init())
    checks += judge_lockstep(join, traces, part.steps)
    checks += _judge_freely(join, free, checks) if free else []
    return slots_aside(checks, join, traces)


def _judge_freely(join: Join, free: FreeRuns, lockstep: Sequence[Check]) -> list[Check]:
    found = judge_free(join, free.reference, free.candidate, free.spread, lockstep)
    # The steps are the tool's, and move no averages: those are the program's to move.
    return [check for check in found if quantity_of(check.key) != "ema"]


def _rejudge(script: Script, runs: Runs, checks: list[Check]) -> list[Check]:
    replayed, traces = script.replayed, runs.lockstep
    race = ScriptRace(script.orders, replayed.join, traces)
    return rejudge(checks, [race, *rules_of_replay(replayed, script.shadow, traces, script.out)])


def _level(replayed: ReplayedPort, runs: Runs, checks: Sequence[Check]) -> Level:
    first = first_difference(replayed.join, checks, dict(_pairs(runs)["function"]))
    words = f"{{judged:,}} tensors of {len(replayed.part.steps)} steps; at most {{highest:.2g}} of the tolerance"
    notes = (
        kink_notes(checks)
        + empty_notes(checks)
        + slot_notes(checks)
        + written_notes(replayed.written, replayed.mapping.kept)
        + inexact_notes(runs.lockstep.reference64.facts)
    )
    agree = runs.lockstep.candidate64.facts.get("ranks_agree", True)
    return level_from("function", checks, reason_from(checks, words), first=first, notes=notes, ranks_agree=agree)


def _diagnose(replayed: ReplayedPort, runs: Runs, level: Level) -> Level:
    """Returns the level with where its first difference is, and what its causes are."""
    first, part, join = level.first_difference, replayed.part, replayed.join
    if first is None or (first.check.verdict != "different" and not _is_lost(first, runs.lockstep.reference64)):
        return level
    traces, again = runs.lockstep, Rerun(replayed)
    evidence = Evidence(join, traces.reference64, traces.candidate64, traces.states, part.towers)
    located = cache(partial(locate_first, first, again, join, traces.reference64))
    stages: list[Callable[[Level], Level]]
    if runs.free and first.check.run == "free":
        # Nothing is tried by experiments: a step run again starts from the recorded state, from which it is the same.
        free = runs.free
        evidence = Evidence(join, free.reference, free.candidate, free.states, part.towers)
        level = level.with_notes(SAME_STEP_BY_STEP)
        stages = [
            lambda level: replace(level, causes=counts_otherwise(part, free) or _causes(first, level.checks, evidence))
        ]
    else:
        stages = [
            lambda level: replace(level, causes=_causes(first, level.checks, evidence)),
            lambda level: replace(level, causes=with_causes_at(located(), evidence, level.causes)),
            lambda level: with_experiments(level, first, again, evidence, located()),
            lambda level: with_cut(level, again, evidence),
            lambda level: with_location(level, located()),
        ]
    return refine(level, stages)


def _is_lost(first: FirstDifference, reference: Trace) -> bool:
    """Returns whether a tower of the port has no gradient where the script's has one: there is nothing else to compare."""
    lockstep = first.check.run == "lockstep" and first.quantity == "tower_grad"
    return lockstep and first.check.key in reference.step(first.check.step)


def _set_aside_rounding(script: Script, runs: Runs, function: Level) -> tuple[Runs, Level]:
    replayed = script.replayed
    # Numbers of an update by hand are constants of the script, which the shadow reads as they were written.
    own_optimizer = replayed.own_optimizer and not replayed.part.by_hand and not replayed.part.of_torch

    def again() -> tuple[Runs, Level]:
        replayed.round_hyper_parameters(moved_statistics(replayed.join, runs.lockstep))
        rounded = _record(script)
        return rounded, _decide(script, rounded)

    return set_aside_rounding(runs, function, again, own_optimizer)


def _notes_of_runs(script: Script, runs: Runs, function: Level) -> list[str]:
    carried = CARRIED if script.replayed.part.begins else LOADED
    free = f"no free run, only lockstep: {runs.why}" if runs.free is None else carried
    return [free, *beside_notes(function.checks, script.replayed.part, script.shadow)]


def _decide_in_float32(script: Script, runs: Runs, function: Level) -> Level:
    replayed, (traces, free, _) = script.replayed, runs
    recorded = Recorded(
        join=replayed.join,
        start=traces.reference32,
        lockstep=traces,
        reference_free=free.reference if free else traces.reference64,
        candidate_free=free.candidate if free else traces.candidate64,
        initial_slots=({}, {}),
        # Without draws of its own the reference is its own: its distance from float64 decides.
        reference_draws=[traces.reference32],
    )
    single = judge_single(recorded, replayed.part.steps, function.checks, partial(_first_steps_again, replayed))
    return script.orders.float32(single, replayed.join, traces)


def _first_steps_again(replayed: ReplayedPort) -> Trace:
    steps = replayed.part.steps[:REPEATED]
    batches, states = ([of(step) for step in steps] for of in (replayed.batch, replayed.state))
    # Only where the accuracy is in question: a run more for nobody else.
    return replayed.again("first-steps-again", steps, batches, states, precision="float32")


def _pairs(runs: Runs) -> dict[str, Pairs]:
    traces, free, _ = runs
    exact = (traces.reference64, traces.candidate64)
    function = {"init": exact, "lockstep": exact}
    if free:
        function["free"] = (free.reference, free.candidate)
    return {"function": function, "float32": {"lockstep": (traces.reference32, traces.candidate32)}}


def _fresh(part: Part) -> dict[str, list[float]]:
    """What the script's optimizer put into its slots, where the recording starts with the training."""
    if not part.begins:
        return {}
    # The smallest and the largest element, as a live side tells them.
    slots = select(part.before(part.steps[0]), "slot")
    return {text: [float(value.min()), float(value.max())] for text, value in slots.items() if value.size}


def _causes(first: FirstDifference, checks: Sequence[Check], evidence: Evidence) -> list[Cause]:
    """Looks at the first step that differs, and then at later ones: at first slots are empty, which hides their rules."""
    run = "free" if first.check.run == "free" else "lockstep"
    pairs = {run: (evidence.reference, evidence.candidate)}
    # In a free run what comes later follows from what came first.
    alike = (
        [check for check in checks if (check.run, check.key) == ("lockstep", first.check.key)] if run != "free" else []
    )
    # The same tensor only: another one that differs later has a cause of its own.
    later = [check for check in alike if check.step > first.check.step and check.verdict == "different"]
    for check in [first.check, *later[:MOST_LATER_CHECKS]]:
        again = first_difference(evidence.join, [check], pairs) if check is not first.check else first
        causes = find_causes(again, evidence) if again else []
        if causes:
            return causes
    return []
