"""Runs cases and decides them; one `Session` may serve many cases and pays for its imports once."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parity.case import Case
from parity.experiment.diagnosis import Rejudged, diagnose_case, evidence_of, has_own_optimizer
from parity.experiment.intended import look_for_declared
from parity.experiment.layers import decisive
from parity.experiment.level_details import judge_halves, look_at_level, look_at_levels, with_structure
from parity.experiment.levels import function_checks, judge_function, judge_single, level_of_function, not_run
from parity.experiment.recorder import Recorder
from parity.experiment.recording import Begun, Recorded
from parity.experiment.rejudge.half_precision import with_draws_where_gradients_jump
from parity.experiment.rejudge.ill_conditioned import set_aside_rounding
from parity.experiment.rejudge.repeatability import judge_repeats, set_aside_wandering
from parity.experiment.rejudge.rules import rejudge, settled_notes
from parity.experiment.reproduction import reproduced
from parity.experiment.runs import record_halves, with_more_draws
from parity.experiment.sides.golden_side import GoldenSide
from parity.experiment.spec import Progress, silent
from parity.experiment.stepwise.sizes import Budget
from parity.experiment.trajectories import decide_trajectory
from parity.judge.repeatability import Repeat
from parity.judge.result import Check, DeclaredDifference, Level, Result
from parity.trace import Trace
from parity.worker.failures import SideFailed
from parity.worker.launch import Sides
from parity.worker.reaper import temporary_folder

LEVELS = ("function", "float32", "trajectory", "mixed")
DOUBLE = 'the case trains in float64, which level 1 has decided: precision = "float64"'
QUICK = "lockstep alone (--quick): no free run was made, and nothing was run twice"
# What torch's DistributedDataParallel ends a port with, what is let pass then, and what is said of it. The first is a port
# of which a parameter has no gradient, in its second step: no right port. The second calls parts of its model in its loss.
ENDED = (
    (
        "Expected to have finished reduction",
        "unused",
        "DistributedDataParallel ends this port in its second step, for its loss does not reach all of its parameters: what "
        "is wrong was looked for with find_unused_parameters=True",
    ),
    (
        "'DistributedDataParallel' object has no attribute",
        "parts",
        "the loss calls parts of the model by themselves, which DistributedDataParallel has not: it was called with the "
        "model as if it were not wrapped, and all gradients were combined by hand. Wrap each part by itself, or do that too",
    ),
)
IN_ONE_PASS = frozenset(["function", "float32"])  # levels that a recording step by step decides
IN_LOCKSTEP = frozenset(
    ["function", "float32", "mixed"]
)  # decided by, or beside, what both sides do from the same states


class CaseRun(NamedTuple):
    """A case under way, its sides ready.

    Fields:
      case: a validated case.
      sides: started processes.
      levels: those asked for.
      folder: of the traces.
      tick: told how far it is: what, done, total.
      golden: a golden trace that stands for TensorFlow and the batches, or None.
      recorder: of the case, which has begun.
      begun: what it returned.
      candidate: facts of the candidate as it began.
    """

    case: Case
    sides: Sides
    levels: Sequence[str]
    folder: Path
    tick: Progress
    golden: Path | None
    recorder: Recorder
    begun: Begun
    candidate: dict[str, Any]

    def function(self, recorded: Recorded) -> Level:
        """Returns level 1 of what was recorded, judged and judged again."""
        return judge_function(recorded, range(self.case.steps), self.recorder.rules)


class Decided(NamedTuple):
    """What was decided of a case.

    Fields:
      levels: by name.
      recorded: what level 1 was decided by, None where no level needs it.
      repeats: how far each side is from itself.
      trajectories: the unperturbed float32 runs of level 3, reference and candidate, or None.
    """

    levels: dict[str, Level]
    recorded: Recorded | None = None
    repeats: Sequence[Repeat] = ()
    trajectories: tuple[Trace, Trace] | None = None


def run_case(
    case: Case,
    sides: Sides,
    levels: Sequence[str] = ("function", "float32"),
    out: Path | None = None,
    tick: Progress = silent,
    golden: Path | None = None,
    in_detail: bool = False,
    reproduce: Path | None = None,
    blessing: bool = False,
    budget: Budget | None = None,
    quick: bool = False,
) -> Result:
    """Runs a case on both sides and decides the levels asked for.

    Args:
      case: a validated case.
      sides: started processes.
      levels: names among `LEVELS`.
      out: folder that keeps the traces; by default they are removed in the end.
      tick: told how far it is: what, done, total.
      golden: a golden trace that stands for TensorFlow and the batches.
      in_detail: look closer at tensors that differ, and keep the losses: for reports that show them.
      reproduce: folder that gets the smallest thing that shows the first difference of level 1, where there is one.
      blessing: leave in `out` what a golden trace keeps beside the runs.
      budget: of the runs of levels 1 and 2 on disk: where all of them would take more, each step is judged and removed
        before the next; where that does not fit either, fewer steps are made. None keeps them whatever they take.
      quick: whether level 1 alone is decided, by lockstep alone: no free runs, and no run is repeated.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables of the two sides do not join.
      GoldenError: the golden trace is none, or one of another case.
      BudgetError: not even a step fits into a strict budget.
    """

    def decided(allowing: str) -> Result:
        settings = tick, golden, in_detail, reproduce, blessing, budget, quick
        return _run_case(case, sides, levels, out, *settings, allowing=allowing)

    try:
        return decided("")
    except SideFailed as error:
        found = next((each for each in ENDED if each[0] in str(error)), None)
        # Where a folder keeps the traces, it has those of the port as it ended.
        if found is None or out is not None:
            raise
        _, allowing, note = found
        if allowing == "parts" and case.torch.step:
            raise  # a step of the port's own combines by itself, and has to do so with the wrapper
        sides.catch_up()
        result = decided(allowing)
        if allowing == "unused" and result.verdict != "different":
            raise  # nothing else is wrong with it
        result.notes.append(note)
        return result


def _run_case(
    case: Case,
    sides: Sides,
    levels: Sequence[str],
    out: Path | None,
    tick: Progress,
    golden: Path | None,
    in_detail: bool,
    reproduce: Path | None,
    blessing: bool,
    budget: Budget | None,
    quick: bool,
    allowing: str,
) -> Result:
    with _folder_of_traces(out, sides) as folder:
        alone = set(levels) <= IN_ONE_PASS and not blessing and not case.expect
        reference = GoldenSide(golden, case) if golden else None
        # Draws under perturbation, 16 of the runs, are level 2's alone.
        asked = "float32" in levels, tick, reference, budget if alone else None, out is not None, quick, allowing
        run = _prepare(case, levels, golden, Recorder(case, sides, folder, *asked), sides, folder, tick)
        fit = run.recorder.fit
        if fit.steps < case.steps:
            case = case.model_copy(update={"steps": fit.steps})
            run = _prepare(case, levels, golden, Recorder(case, sides, folder, *asked), sides, folder, tick)
        # Level 3 alone needs no lockstep: neither its runs nor what they cost.
        decided = Decided({})
        if IN_LOCKSTEP & set(levels):
            recorded = _record(run)
            checks = _judge(run, recorded)
            rejudged = _rejudge(run, recorded, checks)
            function = _diagnose(run, rejudged)
            decided = _decide_in_float32(run, rejudged.recorded, function)
            if blessing:
                run.recorder.leave_beside(rejudged.recorded)
        # In this order, for level 1 decides whether the port has its hyper-parameters rounded in the runs that come
        # behind.
        decided = _decide_mixed(run, _aside_where_wandering(decided))
        decided = _decide_trajectory(run, decided)
        result = _with_details(run, decided, _conclude(run, decided), in_detail, reproduce)
        result.notes += [fit.note] if fit.note else []
        if not result.exit_code:
            run.recorder.tidy()
        return result


@contextlib.contextmanager
def _folder_of_traces(out: Path | None, sides: Sides) -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        folder = out or Path(stack.enter_context(temporary_folder("parity-run-")))
        try:
            yield folder
        except Exception:
            sides.settle()  # they may serve another case, and nothing may write into a folder that is gone
            raise


def _prepare(
    case: Case,
    levels: Sequence[str],
    golden: Path | None,
    recorder: Recorder,
    sides: Sides,
    folder: Path,
    tick: Progress,
) -> CaseRun:
    begun = recorder.begin()
    _, question = recorder.structure
    if question is not None and not IN_LOCKSTEP & set(levels):
        raise question  # in lockstep it is asked only where nothing differs: `with_structure`
    return CaseRun(case, sides, levels, folder, tick, golden, recorder, begun, recorder.candidate_facts)


def _record(run: CaseRun) -> Recorded:
    return run.recorder.record(run.begun)


def _judge(run: CaseRun, recorded: Recorded) -> list[Check]:
    run.tick("judge what was recorded", 0, 1)
    checks = function_checks(recorded, range(run.case.steps))
    if any(check.verdict in ("different", "incomparable") for check in checks):
        run.recorder.write_states()  # rules and experiments start from them
    return checks


def _rejudge(run: CaseRun, recorded: Recorded, checks: list[Check]) -> Rejudged:
    """Returns level 1 with what rounding decides judged again, in the end of a candidate with rounded hyper-parameters."""

    @functools.cache  # asked for here and by the diagnosis, and each time would record the candidate anew
    def rounded() -> tuple[Recorded, Level]:
        again = run.recorder.again_with_rounded_hyper_parameters(recorded)
        return again, run.function(again)

    level = level_of_function(recorded, rejudge(checks, run.recorder.rules(recorded)))
    what = "hyper-parameters" + (" and learning rates" if run.case.torch.scheduler else "")
    return Rejudged(*set_aside_rounding(recorded, level, rounded, has_own_optimizer(run.case), what), rounded)


def _diagnose(run: CaseRun, rejudged: Rejudged) -> Level:
    function, located = diagnose_case(run.case, run.recorder.again, rejudged)
    evidence = evidence_of(run.case, rejudged.recorded)
    return with_structure(function, *run.recorder.structure, located, evidence)


def _decide_in_float32(run: CaseRun, recorded: Recorded, function: Level) -> Decided:
    # Level 2 takes the checks of level 1: beside a kink float32 may be apart by what float64 is.
    levels = {"function": function}
    if "float32" in run.levels and run.case.precision == "float32":
        levels["float32"] = judge_single(recorded, range(run.case.steps), function.checks)
    run.tick("judge what was recorded", 1, 1)
    run.sides.outlive_failure()  # of experiments that the port did not take
    return Decided(levels, recorded)


def _aside_where_wandering(decided: Decided) -> Decided:
    if decided.recorded is None:
        return decided
    repeats = judge_repeats(decided.recorded)
    # An op that draws in every run is named, for it is what a reader can leave out or feed.
    draws = decided.recorded.lockstep.reference32.facts.get("random_ops", [])
    return decided._replace(levels=set_aside_wandering(decided.levels, repeats, draws), repeats=repeats)


def _decide_mixed(run: CaseRun, decided: Decided) -> Decided:
    torch = run.case.torch
    if "mixed" not in run.levels or torch.opt_level == "O0" or run.case.precision != "float32":
        return decided
    sides = run.recorder.playing, run.recorder.states
    halves = record_halves(*sides, torch.half_dtype, torch.opt_level)
    halves = with_draws_where_gradients_jump(halves, functools.partial(with_more_draws, *sides))
    return decided._replace(levels={**decided.levels, "mixed": judge_halves(halves)})


def _decide_trajectory(run: CaseRun, decided: Decided) -> Decided:
    if "trajectory" not in run.levels or run.golden is not None:
        return decided
    # Under way since `begin`: the float32 trajectory that all states come from is level 3's unperturbed run too.
    reference = run.begun.reference.result()
    level, candidate = decide_trajectory(run.case, run.recorder.playing, run.begun.join, reference)
    return decided._replace(levels={**decided.levels, "trajectory": level}, trajectories=(reference, candidate))


def _conclude(run: CaseRun, decided: Decided) -> Result:
    case, recorded, levels = run.case, decided.recorded, decided.levels
    declared: list[DeclaredDifference] = []
    notes = recorded.notes + settled_notes(levels["function"].checks, run.golden) if recorded is not None else []
    if case.expect:
        declared, levels = look_for_declared(case, run.sides, run.folder, levels, run.golden is None, run.tick)
    result = Result(
        levels={name: _level(name, run.levels, levels, case) for name in LEVELS},
        reference=_facts(run.begun.reference.result()),
        candidate=_facts(recorded.lockstep.candidate32) if recorded is not None else run.candidate,
        pairs=run.begun.pairs,
        notes=[each.sentence for each in declared] + _weaker(case) + _quick(recorded) + notes,
        declared=declared,
        repeats=list(decided.repeats),
    )
    result.unjudged = _unjudged(result, run.levels)
    return result


def _with_details(run: CaseRun, decided: Decided, result: Result, in_detail: bool, reproduce: Path | None) -> Result:
    recorded, trajectories = decided.recorded, decided.trajectories
    # The scripts take the difference as the trace has it, not at the layer where it was located.
    if reproduce is not None and recorded is not None and result.exit_code:
        function = result.levels["function"]
        result.reproduction, told = reproduced(run.case, recorded, decisive(function), reproduce)
        result.notes += told
    if in_detail and recorded is not None:
        look_at_levels(result, recorded)
    if in_detail and trajectories is not None:
        look_at_level(result, "trajectory", run.begun.join, {"free": trajectories})
    return result


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


def _quick(recorded: Recorded | None) -> list[str]:
    return [QUICK] if recorded is not None and recorded.quick else []


def _weaker(case: Case) -> list[str]:
    notes = []
    if case.init == "model":
        notes.append('init = "model": zero biases, unit gammas and empty slots can hide swapped or missing parts')
    if case.optimizer is not None and case.optimizer.ema is not None and (case.torch.optimizer or case.torch.step):
        notes.append("averages of the weights: ours, around the port's own update; averages of its own were not judged")
    return notes
