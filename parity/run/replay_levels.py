"""Decides levels 1 and 2 of a replay: the port in two precisions against the script and its float64 shadow."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parity.causes import Evidence, find_causes
from parity.causes.optimizer_input import SlotRule, slot_rule
from parity.judge.closer import Pairs
from parity.judge.level1 import Lockstep, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.numbers import distance, norm
from parity.judge.result import Cause, Check, FirstDifference, Level, decide
from parity.run.experiments import find_by_experiment
from parity.run.levels import find_first, judge_single
from parity.run.recorded import Recorded
from parity.run.replay_again import Again
from parity.run.replay_free import ALONE, FreeRuns, counts_otherwise, judge_freely, train_freely
from parity.run.replay_part import Part
from parity.run.replay_port import Replayed
from parity.run.replay_reference import write_reference
from parity.run.roles import Tick
from parity.run.states import write_states
from parity.trace import Trace, parse_key

CARRIED = (
    "in lockstep, each step from the recorded state, and freely from the first weights, with nobody resetting the port"
)
LATER = 3
FAR = 2.0**14  # unit roundoffs of float32: more than rounding does in anything but deep nets, less than any race seen


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


def judge_part(replayed: Replayed, shadow: Trace, out: Path, tick: Tick) -> Judged:
    """Runs a port in both precisions and judges it.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      out: folder for what is written.
      tick: told how far it is: what, done, total.
    """
    part, join = replayed.part, replayed.join
    states = write_states(out / "reference-states", ((number, part.before(number)) for number in part.steps))
    traces = Lockstep(
        reference32=write_reference(part, part.trace, out / "reference"),
        reference64=write_reference(part, shadow, out / "reference64"),
        candidate32=replayed.run("float32"),
        candidate64=replayed.run("float64"),
        states=Trace(states),
    )
    free, why = train_freely(replayed, shadow, out)
    tick("judge what was replayed", 0, 1)
    checks = judge_initial_slots(join, _fresh(part), replayed.initial_slots)
    checks += judge_init(join, traces.reference64.init(), traces.candidate64.init())
    checks += judge_lockstep(join, traces, part.steps)
    checks += judge_freely(join, free, checks) if free else []
    function = _function(replayed, traces, free, checks)
    function.notes.append(f"no free run, only lockstep: {why}" if free is None else CARRIED)
    recorded = Recorded(
        join=join,
        start=traces.reference32,
        lockstep=traces,
        reference_free=free.reference if free else traces.reference64,
        candidate_free=free.candidate if free else traces.candidate64,
        initial_slots=({}, {}),
        # Without draws of its own the reference is its own: its distance from float64 decides.
        reference_draws=[traces.reference32],
    )
    single = judge_single(recorded, part.steps)
    tick("judge what was replayed", 1, 1)
    return Judged([function, single], _races(part, traces), _pairs(traces, free))


def _pairs(traces: Lockstep, free: FreeRuns | None) -> dict[str, Pairs]:
    exact = (traces.reference64, traces.candidate64)
    function = {"init": exact, "lockstep": exact}
    if free:
        function["free"] = (free.reference, free.candidate)
    return {"function": function, "float32": {"lockstep": (traces.reference32, traces.candidate32)}}


def _fresh(part: Part) -> dict[str, list[float]]:
    """What the script's optimizer put into its slots, where the recording starts with the training."""
    if not part.begins:
        return {}
    slots = {text: value for text, value in part.before(part.steps[0]).items() if text.startswith("slot/")}
    return {text: [float(value.min()), float(value.max())] for text, value in slots.items() if value.size}


def _function(replayed: Replayed, traces: Lockstep, free: FreeRuns | None, checks: list[Check]) -> Level:
    part, join = replayed.part, replayed.join
    first = find_first(join, checks, dict(_pairs(traces, free)["function"]))
    level = Level("function", decide(checks), _reason(checks, len(part.steps)), checks, first)
    if first is not None and first.check.verdict == "different":
        evidence = Evidence(join, traces.reference64, traces.candidate64, traces.states, part.towers)
        clips = bool(part.facts.get("clipped"))
        if free and first.check.run == "free":
            level.notes.append(ALONE)
            evidence = Evidence(join, free.reference, free.candidate, free.states, part.towers)
            level.causes = counts_otherwise(part, free) or _causes(first, checks, evidence, clips)
        else:
            level.causes = _causes(first, checks, evidence, clips)
        if not level.causes and first.check.run != "free":
            again = Again(replayed)
            level.causes = find_by_experiment(first, again, join, traces.reference64, traces.candidate64)
    if not traces.candidate64.facts.get("ranks_agree", True):
        level.verdict = "different"
        level.notes.insert(0, "the ranks hold different weights: some gradient or update is not shared between them")
    return level


def _causes(first: FirstDifference, checks: Sequence[Check], evidence: Evidence, clips: bool) -> list[Cause]:
    """Looks at the first step that differs, and then at later ones: at first slots are empty, which hides their rules."""
    run = "free" if first.check.run == "free" else "lockstep"
    pairs = {run: (evidence.reference, evidence.candidate)}
    # In a free run what comes later follows from what came first.
    alike = (
        [check for check in checks if (check.run, check.key) == ("lockstep", first.check.key)] if run != "free" else []
    )
    later = [check for check in alike if check.step > first.check.step and check.verdict == "different"]
    for check in [first.check, *later[:LATER]]:
        again = find_first(evidence.join, [check], pairs) if check is not first.check else first
        causes = find_causes(again, evidence) if again else []
        if not causes and clips and again:
            causes = _not_clipped(again, evidence)
        if causes:
            return causes
    return []


def _not_clipped(first: FirstDifference, evidence: Evidence) -> list[Cause]:
    """The candidate's slots take up the combined gradient, the reference's something else: a clipped one."""
    step = first.check.step
    if first.quantity not in ("slot", "var"):
        return []
    for slot in evidence.slots(step):
        wanted, got = (slot_rule(evidence, step, slot, candidate=side) for side in (False, True))
        if got is None or (wanted is not None and not _takes_less(wanted, got)):
            continue
        text = (
            f"slot' = {got.keep:.6g} slot + {got.take:.6g} gradient{'^2' if got.power == 2 else ''} fits every "
            f"{slot} of the candidate with the combined gradients; the script, which clips them, "
            + (f"takes {wanted.take:.6g} of them" if wanted else "takes others")
        )
        mend = "clip as the graph does, between the combined gradient and the update"
        return [Cause("clipping", "the candidate does not clip", text, mend)]
    return []


def _takes_less(wanted: SlotRule, got: SlotRule) -> bool:
    return wanted.power == got.power and abs(wanted.keep - got.keep) < 1e-9 and abs(wanted.take) < abs(got.take)


def _races(part: Part, traces: Lockstep) -> list[str]:
    worst: dict[str, tuple[float, str]] = {}
    for number in part.steps:
        rough, exact = traces.reference32.step(number), traces.reference64.step(number)
        total = float(sum(norm(exact.read(text)) ** 2 for text in exact.names() if text.startswith("grad/")) ** 0.5)
        for text in rough.names():
            quantity, one = parse_key(text).quantity, rough.read(text)
            if one.dtype.kind != "f" or quantity in ("state", "feed"):
                continue
            size = norm(exact.read(text))
            size = max(size, 1e-3 * total) if quantity in ("grad", "tower_grad") else size
            apart = distance(one, exact.read(text)) / (2.0**-24 * size) if size else 0.0
            worst[quantity] = max(worst.get(quantity, (0.0, "")), (apart, f"{text} of step {number}"))
    return [
        f"the script's own {quantity} is not what its graph says: {where} is {apart:.2g} unit roundoffs from it. "
        "It races, or changes variables between its steps; level 1 judges what the graph says."
        for quantity, (apart, where) in worst.items()
        if apart > FAR
    ]


def _reason(checks: Sequence[Check], steps: int) -> str:
    judged = [check for check in checks if check.verdict != "not_run"]
    wrong = [check for check in judged if check.verdict != "same"]
    if wrong:
        return f"{len(wrong):,} of {len(judged):,} tensors are not the same"
    highest = max((check.multiple for check in judged), default=0.0)
    return f"{len(judged):,} tensors of {steps} steps; at most {highest:.2g} of what is allowed"
