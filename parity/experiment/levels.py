"""Turns what was recorded of a case into the verdicts of its levels."""

from collections.abc import Callable, Sequence

from parity.experiment.recording import Measured, Recorded
from parity.experiment.rejudge.ill_conditioned import empty_notes
from parity.experiment.rejudge.non_differentiable import apart_at_kinks, kink_notes
from parity.experiment.rejudge.races import race_notes
from parity.experiment.rejudge.rules import Rule, race_of, rejudge
from parity.judge.allowances import ACCURACY_LIMIT, ACCURACY_NOTED, FLOAT32_LIMIT
from parity.judge.imprecise_ops import inexact_notes
from parity.judge.level import first_difference, level_from, reason_from
from parity.judge.levels.float32 import Accuracy, judge_accuracy, judge_float32
from parity.judge.levels.function import Lockstep, judge_free, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.port_values import judge_own_values
from parity.judge.repeatability import Repeat, judge_repeat
from parity.judge.result import Check, Level
from parity.judge.spread import Replicas
from parity.judge.unmatched_slots import slot_notes, slots_aside
from parity.trace import Trace, parse_key, trace_name


def judge_function(
    recorded: Recorded,
    steps: Sequence[int],
    rules: Callable[[Recorded], Sequence[Rule]] = lambda recorded: [race_of(recorded)],
) -> Level:
    """Decides level 1 from the float64 runs, in lockstep and free; why it differs is not asked.

    Args:
      recorded: everything.
      steps: those to judge.
      rules: returns those that judge again what rounding decides, `Recorder.rules`; by default what races is.
    """
    return level_of_function(recorded, rejudge(function_checks(recorded, steps), rules(recorded)))


def function_checks(recorded: Recorded, steps: Sequence[int]) -> list[Check]:
    """Returns the checks of level 1 in execution order, with nothing judged again.

    Args:
      recorded: everything.
      steps: those to judge.
    """
    if recorded.measured is not None:
        return recorded.measured.function
    traces = recorded.lockstep
    # In execution order, and so is every report: what sides start from, what was loaded, the steps, the free run.
    checks = judge_initial_slots(recorded.join, *recorded.initial_slots) + judge_own_values(recorded.written)
    checks += judge_init(recorded.join, traces.reference64.init(), traces.candidate64.init())
    checks += judge_lockstep(recorded.join, traces, steps)
    if not recorded.quick:
        # Amplification needs the lockstep's allowances: free runs are judged behind them.
        spread = Replicas(recorded.reference_free, recorded.replicas)
        checks += judge_free(recorded.join, recorded.reference_free, recorded.candidate_free, spread, checks)
    # Behind all judging, for the updates have to be known by which slots are told.
    return slots_aside(checks, recorded.join, traces)


def level_of_function(recorded: Recorded, checks: Sequence[Check]) -> Level:
    """Returns level 1: the verdict over its checks, where it differs first, and what a report says of how it was judged.

    Args:
      recorded: everything.
      checks: of the level, those judged again that rounding decides.
    """
    traces = recorded.lockstep
    # What was loaded is the state that the float64 lockstep began with.
    pairs = {
        "init": (traces.reference64, traces.candidate64),
        "lockstep": (traces.reference64, traces.candidate64),
        "free": (recorded.reference_free, recorded.candidate_free),
    }
    first = first_difference(recorded.join, checks, pairs)
    notes = (
        race_notes(recorded.races, checks)
        + kink_notes(checks)
        + empty_notes(checks)
        + slot_notes(checks)
        + _never_moved(traces, recorded.measured)
        + _in_float32(traces)
        + inexact_notes(traces.reference64.facts)
    )
    agree = traces.candidate64.facts.get("ranks_agree", True)
    return level_from("function", checks, reason_from(checks), first=first, notes=notes, ranks_agree=agree)


def judge_single(
    recorded: Recorded,
    steps: Sequence[int],
    function: Sequence[Check] = (),
    once_more: Callable[[], Trace | None] = lambda: None,
) -> Level:
    """Decides level 2 from the float32 runs.

    Args:
      recorded: everything.
      steps: those to judge.
      function: the checks of level 1. Where these were judged beside a kink, the sides are apart in float64 already, and in
        float32 may be so by as much more.
      once_more: makes the candidate's first steps in float32 once more, where `recorded` does not hold them.
    """
    traces = recorded.lockstep
    measured = recorded.measured
    checks = measured.float32 if measured else judge_float32(recorded.join, traces, recorded.reference_draws, steps)
    checks = slots_aside(checks, recorded.join, traces)
    # Kinks and zero gradients were settled in float64; float32 has measured spreads for what they do.
    checks = rejudge(checks, [race_of(recorded, "float32")])
    apart = apart_at_kinks(function, recorded)
    # 3 times, as float32's own: at a kink each side takes one of two values, in either precision.
    checks = [_with_allowance(check, FLOAT32_LIMIT * apart.get((check.step, check.key), 0.0)) for check in checks]
    draws = recorded.reference_draws, recorded.candidate_draws
    accuracy = measured.accuracy if measured else judge_accuracy(recorded.join, traces, *draws)
    first = first_difference(recorded.join, checks, {"lockstep": (traces.reference32, traces.candidate32)})
    notes = _accuracy_notes(accuracy)
    if accuracy.holds:
        return level_from("float32", checks, reason_from(checks), first=first, notes=notes)
    # Whatever the checks say: low precision is in eP, and widens its own allowance.
    reason = "the candidate computes in less than float32: look for TensorFloat-32 or bfloat16"
    # Before it is called imprecise: a port that draws anew has a float32 run of another draw.
    repeat = _repeat_of_candidate(recorded, once_more)
    if repeat is not None and not repeat.comparable:
        # Its float32 is no rounding of its float64 then, but another draw.
        reason = f"the candidate does not repeat itself: {repeat.sentence.partition(': ')[2]}"
    return level_from("float32", checks, reason, first=first, notes=notes, verdict="different")


def _repeat_of_candidate(recorded: Recorded, once_more: Callable[[], Trace | None]) -> Repeat | None:
    if recorded.measured is not None:
        return next((each for each in recorded.measured.repeats if each.side == "candidate"), None)
    again = recorded.repeats.get("candidate") or once_more()
    return judge_repeat("candidate", recorded.lockstep.candidate32, again, again.step_numbers) if again else None


def _accuracy_notes(accuracy: Accuracy) -> list[str]:
    states = ", ".join(str(step) for step in accuracy.states)
    notes = [
        f"accuracy of the gradients at steps {states}: candidate {accuracy.candidate:.2f}, "
        f"reference {accuracy.reference:.2f} times the other side's distance from float64 (limit {ACCURACY_LIMIT:g})"
    ]
    whose = "candidate" if accuracy.candidate > accuracy.reference else "reference"
    ratio = max(accuracy.candidate, accuracy.reference)
    if accuracy.holds and ratio > ACCURACY_NOTED:
        notes.append(f"{whose} worse: its float32 is the less accurate one, {_why_less_accurate(whose, ratio)}")
    return notes


def _why_less_accurate(whose: str, ratio: float) -> str:
    if ratio <= ACCURACY_LIMIT:
        return "by no more than naive summation explains (on the CPU: batch norm over channels-last tensors)"
    # Beyond the limit naive summation is no explanation, whichever side it is; why the level does not differ for it is.
    if whose == "candidate":
        return (
            "in its gradients alone, as where rounding flips a ReLU or max pool: activations and losses are as accurate"
        )
    return "by more than naive summation explains: look for TensorFloat-32 or bfloat16 there. The port is to match it"


def _with_allowance(check: Check, more: float) -> Check:
    if not more or check.verdict not in ("same", "different"):
        return check
    allowed = check.allowed + more
    return check._replace(allowed=allowed, verdict="same" if check.difference <= allowed else "different")


def not_run(name: str, reason: str) -> Level:
    """Returns a level that nobody asked for or that cannot be had."""
    return Level(name, "not_run", reason)


def _in_float32(traces: Lockstep) -> list[str]:
    places = traces.reference64.facts.get("float32_in_float64") or []
    if not places:
        return []
    return [
        f"the graph computes in float32 though it is fed float64, at {', '.join(places)} (everything in tf.losses does): "
        "losses and metrics are judged as float32, gradients as float64"
    ]


def _never_moved(traces: Lockstep, measured: Measured | None = None) -> list[str]:
    moved: set[str] = set(measured.moved) if measured else set()
    names: list[str] = []
    for step in traces.reference64.step_numbers:
        file = traces.reference64.step(step)
        names = names or file.names("grad")
        if measured is not None:
            break
        # Until every gradient has been non-zero once: most are in the first step, which spares reading the others.
        moved.update(text for text in names if text not in moved and file.read(text).any())
    still = [parse_key(text).name for text in names if text not in moved]
    missing = [name for name in _weights(traces.reference64) if trace_name("grad", name) not in names]
    notes = []
    if still:
        notes.append(f"gradient never non-zero, so nothing is proven about: {', '.join(still)}")
    if missing:
        notes.append(f"no gradient at all: {', '.join(missing)}")
    return notes


def _weights(trace: Trace) -> list[str]:
    return [name for name, entry in trace.variables.items() if entry["kind"] == "weight"]
