"""Runs cases and decides them; one `Session` may serve many cases and pays for its imports once."""

import functools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.case import Case
from parity.diagnose import Evidence, find_causes, find_further, first_in_lockstep
from parity.diagnose.catalogue import is_place_only
from parity.diagnose.interventions import ahead_of, find_by_experiment, find_onward, with_cut, with_parting
from parity.diagnose.located.search import fitting, with_causes_at
from parity.experiment.intended import look_for_declared
from parity.experiment.layers import decisive, locate_first, place_at_own_loss, with_location
from parity.experiment.level_details import judge_halves, look_at_level, look_at_levels, with_structure
from parity.experiment.levels import judge_function, judge_single, not_run
from parity.experiment.recorder import Recorder
from parity.experiment.recording import Begun, Recorded
from parity.experiment.recover import outliving
from parity.experiment.rejudge.ill_conditioned import but_for_rounding, of_the_optimizer, set_aside_rounding
from parity.experiment.rejudge.repeatability import judge_repeats, set_aside_wandering
from parity.experiment.rejudge.rules import settled_notes
from parity.experiment.reproduction import reproduced
from parity.experiment.runs import record_halves
from parity.experiment.sides.golden_side import GoldenSide
from parity.experiment.spec import Progress, silent
from parity.experiment.trajectories import decide_trajectory
from parity.judge.repeatability import Repeat
from parity.judge.result import Cause, FirstDifference, Level, Result, own_first
from parity.locate.located import Located
from parity.trace import Trace
from parity.worker.launch import Sides

LEVELS = ("function", "float32", "trajectory", "mixed")
Rounded = Callable[[], tuple[Recorded, Level]]
DOUBLE = 'the case trains in float64, which level 1 has decided: precision = "float64"'


def run_case(
    case: Case,
    sides: Sides,
    levels: Sequence[str] = ("function", "float32"),
    out: Path | None = None,
    tick: Progress = silent,
    golden: Path | None = None,
    closely: bool = False,
    reproduce: Path | None = None,
    blessing: bool = False,
) -> Result:
    """Runs a case on both sides and decides the levels asked for.

    Args:
      case: a validated case.
      sides: started processes.
      levels: names among `LEVELS`.
      out: folder that keeps the traces; by default they are removed in the end.
      tick: told how far it is: what, done, total.
      golden: a golden trace that stands for TensorFlow and the batches.
      closely: look closer at tensors that differ, and keep the losses: for reports that show them.
      reproduce: folder that gets the smallest thing that shows the first difference of level 1, where there is one.
      blessing: leave in `out` what a golden trace keeps beside the runs.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables of the two sides do not join.
      GoldenError: the golden trace is none, or one of another case.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="parity-run-"))
    try:
        reference = GoldenSide(golden, case) if golden else None
        recorder = Recorder(case, sides, folder, "float32" in levels, tick, reference)
        begun = recorder.begin()
        decided: dict[str, Level] = {}
        recorded: Recorded | None = None
        runs: tuple[Trace, Trace] | None = None
        candidate, notes = recorder.candidate_facts, list[str]()
        repeats: list[Repeat] = []
        if {"function", "float32", "mixed"} & set(levels):
            recorded, decided = _in_lockstep(case, recorder, begun, levels, tick)
            sides.outlive_failure()  # of experiments that the port did not take
            candidate = _facts(recorded.lockstep.candidate32)
            notes = recorded.notes + settled_notes(decided["function"].checks, golden)
            if blessing:
                recorder.leave_beside(recorded)
            repeats = judge_repeats(recorded)
            draws = recorded.lockstep.reference32.facts.get("random_ops", [])
            set_aside_wandering(decided, repeats, draws)
        elif (question := recorder.structure[1]) is not None:
            raise question
        if recorded is not None and "mixed" in levels and case.torch.opt_level != "O0" and case.precision == "float32":
            halves = record_halves(recorder.playing, recorder.states, case.torch.half_dtype, case.torch.opt_level)
            decided["mixed"] = judge_halves(halves)
        if "trajectory" in levels and golden is None:
            trace = begun.reference.result()
            decided["trajectory"], strayed = decide_trajectory(case, recorder.playing, begun.join, trace)
            runs = (trace, strayed)
        declared = look_for_declared(case, sides, folder, decided, golden is None, tick) if case.expect else []
        result = Result(
            levels={name: _level(name, levels, decided, case) for name in LEVELS},
            reference=_facts(begun.reference.result()),
            candidate=candidate,
            pairs=begun.pairs,
            notes=[each.sentence for each in declared] + _weaker(case) + notes,
            declared=declared,
            repeats=repeats,
        )
        result.unjudged = _unjudged(result, levels)
        if reproduce is not None and recorded is not None and result.exit_code:
            result.reproduction, told = reproduced(case, recorded, decisive(decided["function"]), reproduce)
            result.notes += told
        if closely and recorded is not None:
            look_at_levels(result, recorded)
        if closely and runs is not None:
            look_at_level(result, "trajectory", begun.join, {"free": runs})
        return result
    except Exception:
        sides.settle()  # they may serve another case, and nothing may write into a folder that is gone
        raise
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)


def _in_lockstep(
    case: Case, recorder: Recorder, begun: Begun, levels: Sequence[str], tick: Progress
) -> tuple[Recorded, dict[str, Level]]:
    recorded = recorder.record(begun)
    tick("judge what was recorded", 0, 1)
    function = judge_function(recorded, range(case.steps), case.towers, recorder.rules)
    rounded = functools.cache(functools.partial(_rounded, case, recorder, recorded))
    recorded, function = _set_aside_rounding(case, recorded, function, rounded)
    first, reference = function.first_difference, recorded.lockstep.reference64
    located = outliving(function.notes, lambda: locate_first(first, recorder.again, recorded.join, reference))
    outliving(function.notes, lambda: _diagnose(case, recorder, recorded, function, rounded, located))
    with_structure(function, *recorder.structure, located, _evidence(case, recorded))
    decided = {"function": function}
    if "float32" in levels and case.precision == "float32":
        decided["float32"] = judge_single(recorded, range(case.steps), function.checks)
    tick("judge what was recorded", 1, 1)
    return recorded, decided


def _diagnose(
    case: Case, recorder: Recorder, recorded: Recorded, function: Level, rounded: Rounded, located: Located | None
) -> None:
    """Adds to level 1 where its first difference is, and what its causes are."""
    first = function.first_difference
    function.causes = with_causes_at(located, _evidence(case, recorded), function.causes)
    if first is not None and (not function.causes or is_place_only(function.causes[0].name)):
        traces = recorded.lockstep
        tried = find_by_experiment(first, recorder.again, recorded.join, traces.reference64, traces.candidate64)
        function.causes = ahead_of(function.causes, fitting(tried, located, undone=True))
    losses = [part.loss for part in case.optimizers.values() if part.loss]
    place_at_own_loss(function, losses, _evidence(case, recorded))
    with_cut(function, recorder.again, _evidence(case, recorded))
    with_parting(function, recorder.again, _evidence(case, recorded))
    if first is not None:
        evidence = _evidence(case, recorded)
        function.causes = find_onward(first, function.causes, recorder.again, evidence, function.checks)
        function.causes += _further(case, first, recorded, function, rounded)
    if first is not None and first.check.run == "fresh":
        function.causes += _behind_the_start(case, recorder, recorded, function, rounded)
    with_location(function, located)
    function.causes = own_first(function.causes, function.first_difference)


def _further(case: Case, first: FirstDifference, recorded: Recorded, function: Level, rounded: Rounded) -> list[Cause]:
    def find(each: Recorded) -> list[Cause]:
        return find_further(first, function.causes, _evidence(case, each), function.checks)

    return but_for_rounding(find, recorded, rounded, _own_optimizer(case))


def _behind_the_start(
    case: Case, recorder: Recorder, recorded: Recorded, function: Level, rounded: Rounded
) -> list[Cause]:
    # In lockstep every step starts from the reference's slots: other values at the start explain nothing there.
    checks = function.checks
    first = first_in_lockstep(_evidence(case, recorded), checks)
    if first is not None and of_the_optimizer(first) and _own_optimizer(case):
        recorded, level = rounded()
        checks = level.checks
        first = first_in_lockstep(_evidence(case, recorded), checks)
    if first is None:
        return []
    evidence = _evidence(case, recorded)
    causes = find_causes(first, evidence)
    if not causes or is_place_only(causes[0].name):
        tried = find_by_experiment(first, recorder.again, evidence.join, evidence.reference, evidence.candidate)
        causes = ahead_of(causes, tried)
    causes = find_onward(first, causes, recorder.again, evidence, checks)
    causes += _further(case, first, recorded, replace(function, causes=causes, checks=checks), rounded)
    known = {cause.name for cause in function.causes}
    return [cause for cause in causes if cause.name not in known]


def _rounded(case: Case, recorder: Recorder, recorded: Recorded) -> tuple[Recorded, Level]:
    rounded = recorder.again_with_rounded_hyper_parameters(recorded)
    return rounded, judge_function(rounded, range(case.steps), case.towers, recorder.rules)


def _set_aside_rounding(case: Case, recorded: Recorded, function: Level, rounded: Rounded) -> tuple[Recorded, Level]:
    what = "hyper-parameters" + (" and learning rates" if case.torch.scheduler else "")
    return set_aside_rounding(recorded, function, rounded, _own_optimizer(case), what)


def _own_optimizer(case: Case) -> bool:
    return bool(case.torch.optimizer or case.torch.scheduler)


def _evidence(case: Case, recorded: Recorded) -> Evidence:
    traces = recorded.lockstep
    return Evidence(recorded.join, traces.reference64, traces.candidate64, traces.states, case.towers)


def _level(name: str, asked: Sequence[str], decided: dict[str, Level], case: Case) -> Level:
    if name in decided:
        return decided[name]
    if name in asked and name == "trajectory":
        return not_run(name, "a golden trace holds no perturbed runs; level 3 needs live TensorFlow")
    if name == "mixed" and name in asked:
        wide = case.precision == "float64"
        return not_run(name, DOUBLE if wide else 'the port runs in float32: [torch] opt_level = "O0"')
    if name == "float32" and name in asked:
        return not_run(name, DOUBLE)
    return not_run(name, "not requested")


def _unjudged(result: Result, asked: Sequence[str]) -> list[str]:
    # What a training in float64 leaves out, level 1 has decided.
    skipped = [result.levels[name] for name in asked if result.levels[name].verdict == "not_run"]
    return [f"level {level.name}: {level.reason}" for level in skipped if level.reason != DOUBLE]


def _facts(trace: Any) -> dict[str, Any]:
    return {**trace.facts, "producer": trace.producer}


def _weaker(case: Case) -> list[str]:
    notes = []
    if case.init == "model":
        notes.append('init = "model": zero biases, unit gammas and empty slots can hide swapped or missing parts')
    if case.optimizer is not None and case.optimizer.ema is not None and (case.torch.optimizer or case.torch.step):
        notes.append("averages of the weights: ours, around the port's own update; averages of its own were not judged")
    return notes
