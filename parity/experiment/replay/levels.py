"""Decides levels 1 and 2 of a replay: the port in two precisions against the script and its float64 shadow."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from parity.diagnose import Evidence, find_causes
from parity.diagnose.catalogue import is_place_only
from parity.diagnose.interventions import ahead_of, find_by_experiment, with_cut
from parity.diagnose.located.search import fitting, with_causes_at
from parity.experiment.layers import locate_first, with_location
from parity.experiment.levels import judge_single
from parity.experiment.recording import Recorded
from parity.experiment.recover import outliving
from parity.experiment.rejudge.ill_conditioned import empty_notes, set_aside_rounding
from parity.experiment.rejudge.non_differentiable import kink_notes
from parity.experiment.rejudge.rules import Rule, rejudge
from parity.experiment.replay.free_run import SAME_STEP_BY_STEP, FreeRuns, counts_otherwise, judge_freely, train_freely
from parity.experiment.replay.ill_conditioned import beside_notes, race_notes, rules_of_replay
from parity.experiment.replay.orders import OtherOrder, ScriptRace
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.rerun import Rerun
from parity.experiment.replay.script import Part, write_reference
from parity.experiment.runs import REPEATED
from parity.experiment.spec import Progress
from parity.judge.level import first_difference, level_from, reason_from
from parity.judge.levels.function import Lockstep, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.output_layouts import take_layouts
from parity.judge.port_values import judge_own_values, written_notes
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.judge.tensor_details import Pairs
from parity.judge.unmatched_slots import slot_notes, slots_aside
from parity.mapping.states import write_states
from parity.trace import Trace, select

CARRIED = "in lockstep, each step from the recorded state, and free-running from the first weights"
LOADED = (
    "in lockstep, each step from the recorded state, and free-running from the first of these, slots and counters included, "
    "for the recording does not start with the training: what the port's optimizer begins with was not judged"
)
MOST_LATER_CHECKS = 3
Rules = Callable[[Lockstep], Sequence[Rule]]


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
    """

    levels: list[Level]
    notes: list[str]
    pairs: dict[str, Pairs]


def judge_part(replayed: ReplayedPort, shadow: Trace, out: Path, tick: Progress) -> Judged:
    """Runs a port in both precisions and judges it.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      out: folder for what is written.
      tick: told how far it is: what, done, total.
    """
    part = replayed.part
    states = Trace(write_states(out / "reference-states", ((number, part.before(number)) for number in part.steps)))
    references = (
        write_reference(part, part.trace, out / "reference"),
        write_reference(part, shadow, out / "reference64"),
    )
    runs = _run(replayed, shadow, references, states, out)
    tick("judge what was replayed", 0, 1)
    layouts = take_layouts(replayed.join, runs.lockstep.reference64, runs.lockstep.candidate64)
    orders = OtherOrder(part, shadow)

    def rules(traces: Lockstep) -> list[Rule]:
        race = ScriptRace(orders, replayed.join, traces)
        return [race, *rules_of_replay(replayed, shadow, traces, out)]

    function = _function(replayed, runs, rules)
    runs, function = _set_aside_rounding(
        replayed, runs, function, rules, lambda: _run(replayed, shadow, references, states, out)
    )
    traces, free, why = runs
    function.notes.append(f"no free run, only lockstep: {why}" if free is None else CARRIED if part.begins else LOADED)
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
    function.notes += beside_notes(function.checks, part, shadow) + layouts
    single = judge_single(recorded, part.steps, function.checks, partial(_first_steps_again, replayed))
    single = orders.float32(single, replayed.join, traces)
    notes = race_notes(part, traces, shadow, function.checks) + orders.notes(function.checks)
    tick("judge what was replayed", 1, 1)
    return Judged([function, single], notes, _pairs(runs))


def _first_steps_again(replayed: ReplayedPort) -> Trace:
    steps = replayed.part.steps[:REPEATED]
    batches, states = ([of(step) for step in steps] for of in (replayed.batch, replayed.state))
    return replayed.again("first-steps-again", steps, batches, states, precision="float32")


def _run(replayed: ReplayedPort, shadow: Trace, references: tuple[Trace, Trace], states: Trace, out: Path) -> Runs:
    traces = Lockstep(*references, replayed.run("float32"), replayed.run("float64"), states)
    return Runs(traces, *train_freely(replayed, shadow, out))


def _set_aside_rounding(
    replayed: ReplayedPort, runs: Runs, function: Level, rules: Rules, run: Callable[[], Runs]
) -> tuple[Runs, Level]:
    # Numbers of an update by hand are constants of the script, which the shadow reads as they were written.
    own_optimizer = replayed.own_optimizer and not replayed.part.by_hand

    def again() -> tuple[Runs, Level]:
        replayed.round_hyper_parameters()
        rounded = run()
        return rounded, _function(replayed, rounded, rules)

    return set_aside_rounding(runs, function, again, own_optimizer)


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
    slots = select(part.before(part.steps[0]), "slot")
    return {text: [float(value.min()), float(value.max())] for text, value in slots.items() if value.size}


def _function(replayed: ReplayedPort, runs: Runs, rules: Rules) -> Level:
    part, join = replayed.part, replayed.join
    traces, free, _ = runs
    checks = judge_initial_slots(join, _fresh(part), replayed.initial_slots) + judge_own_values(replayed.written)
    checks += judge_init(join, traces.reference64.init(), traces.candidate64.init())
    checks += judge_lockstep(join, traces, part.steps)
    checks += judge_freely(join, free, checks) if free else []
    checks = rejudge(slots_aside(checks, join, traces), rules(traces))
    first = first_difference(join, checks, dict(_pairs(runs)["function"]))
    words = f"{{judged:,}} tensors of {len(part.steps)} steps; at most {{highest:.2g}} of the tolerance"
    notes = (
        kink_notes(checks)
        + empty_notes(checks)
        + slot_notes(checks)
        + written_notes(replayed.written, replayed.mapping.kept)
    )
    agree = traces.candidate64.facts.get("ranks_agree", True)
    level = level_from("function", checks, reason_from(checks, words), first=first, notes=notes, ranks_agree=agree)
    if first is not None and first.check.verdict == "different":
        outliving(level.notes, lambda: _diagnose(level, first, replayed, runs))
    return level


def _diagnose(level: Level, first: FirstDifference, replayed: ReplayedPort, runs: Runs) -> None:
    """Adds where the first difference is, and what its causes are."""
    part, join, checks = replayed.part, replayed.join, level.checks
    traces, free, _ = runs
    evidence = Evidence(join, traces.reference64, traces.candidate64, traces.states, part.towers)
    if free and first.check.run == "free":
        level.notes.append(SAME_STEP_BY_STEP)
        evidence = Evidence(join, free.reference, free.candidate, free.states, part.towers)
        level.causes = counts_otherwise(part, free) or _causes(first, checks, evidence)
    else:
        level.causes = _causes(first, checks, evidence)
    again = Rerun(replayed)
    located = locate_first(first, again, join, traces.reference64)
    level.causes = with_causes_at(located, evidence, level.causes)
    if (not level.causes or is_place_only(level.causes[0].name)) and first.check.run != "free":
        tried = find_by_experiment(first, again, join, traces.reference64, traces.candidate64)
        level.causes = ahead_of(level.causes, fitting(tried, located, undone=True))
    if first.check.run != "free":
        with_cut(level, again, evidence)
    with_location(level, located)


def _causes(first: FirstDifference, checks: Sequence[Check], evidence: Evidence) -> list[Cause]:
    """Looks at the first step that differs, and then at later ones: at first slots are empty, which hides their rules."""
    run = "free" if first.check.run == "free" else "lockstep"
    pairs = {run: (evidence.reference, evidence.candidate)}
    # In a free run what comes later follows from what came first.
    alike = (
        [check for check in checks if (check.run, check.key) == ("lockstep", first.check.key)] if run != "free" else []
    )
    later = [check for check in alike if check.step > first.check.step and check.verdict == "different"]
    for check in [first.check, *later[:MOST_LATER_CHECKS]]:
        again = first_difference(evidence.join, [check], pairs) if check is not first.check else first
        causes = find_causes(again, evidence) if again else []
        if causes:
            return causes
    return []
