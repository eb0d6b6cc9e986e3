"""Decides levels 1 and 2 of a replay: the port in two precisions against the script and its float64 shadow."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from parity.causes import Evidence, find_causes
from parity.causes.optimizer_input import SlotRule, slot_rule
from parity.judge.level1 import Lockstep, judge_init, judge_initial_slots, judge_lockstep
from parity.judge.numbers import Array, distance, norm
from parity.judge.result import Cause, Check, FirstDifference, Level, decide
from parity.run.experiments import find_by_experiment
from parity.run.levels import find_first, judge_single
from parity.run.recorded import Recorded
from parity.run.replay_part import Part
from parity.run.replay_port import Replayed
from parity.run.states import Tensors, translated_batch, write_states
from parity.trace import Trace, TraceWriter, parse_key

LATER = 3
FAR = 2.0**14  # unit roundoffs of float32: more than rounding does in anything but deep nets, less than any race seen


def judge_part(replayed: Replayed, shadow: Trace, out: Path) -> tuple[list[Level], list[str]]:
    """Runs a port in both precisions and judges it.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      out: folder for what is written.

    Returns:
      ``([level 1, level 2], notes)``.
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
    checks = judge_initial_slots(join, _fresh(part), replayed.initial_slots)
    checks += judge_init(join, traces.reference64.init(), traces.candidate64.init())
    checks += judge_lockstep(join, traces, part.steps)
    function = _function(replayed, traces, checks, out)
    recorded = Recorded(
        join=join,
        start=traces.reference32,
        lockstep=traces,
        reference_free=traces.reference64,
        candidate_free=traces.candidate64,
        initial_slots=({}, {}),
        # Without draws of its own the reference is its own: its distance from float64 decides.
        reference_draws=[traces.reference32],
    )
    return [function, judge_single(recorded, part.steps)], _races(part, traces)


def write_reference(part: Part, recorded: Trace, out: Path) -> Trace:
    """Leaves what a port can repeat of a recorded trace, or of its shadow."""
    exact = recorded.facts.get("precision") == "float64"
    variables = recorded.variables
    if part.racing:
        variables = {name: entry for name, entry in variables.items() if entry["kind"] != "statistic"}
    facts = {**part.facts, "precision": recorded.facts.get("precision")}
    writer = TraceWriter(out, recorded.producer, facts, variables, ())
    start = {text: value for text, value in part.before(part.steps[0]).items() if _judged(part, text)}
    writer.init({text: _wider(text, value) for text, value in start.items()} if exact else start)
    for number in part.steps:
        writer.step(number, part.tensors(number, recorded.step(number)))
    writer.close()
    return Trace(out)


def _judged(part: Part, text: str) -> bool:
    return not (part.racing and text.startswith("stat/"))


def _wider(text: str, value: Array) -> Array:
    return value.astype("float64") if value.dtype.kind == "f" and not text.startswith("state/") else value


def _fresh(part: Part) -> dict[str, list[float]]:
    """What the script's optimizer put into its slots, where the recording starts with the training."""
    counted = part.before(part.steps[0]).get("state/global_step")
    if part.facts.get("skipped_steps") or (counted is not None and int(counted) != 0):
        return {}
    slots = {text: value for text, value in part.before(part.steps[0]).items() if text.startswith("slot/")}
    spans = {text: [float(value.min()), float(value.max())] for text, value in slots.items() if value.size}
    return spans if part.steps[0] == 0 or part.name else {}


def _function(replayed: Replayed, traces: Lockstep, checks: list[Check], out: Path) -> Level:
    part, join = replayed.part, replayed.join
    pairs = dict.fromkeys(("init", "lockstep"), (traces.reference64, traces.candidate64))
    first = find_first(join, checks, pairs)
    level = Level("function", decide(checks), _reason(checks, len(part.steps)), checks, first)
    if first is not None and first.check.verdict == "different":
        evidence = Evidence(join, traces.reference64, traces.candidate64, traces.states, part.towers)
        level.causes = _causes(first, checks, evidence, bool(part.facts.get("clipped")))
        if not level.causes:
            again = Again(replayed)
            level.causes = find_by_experiment(first, again, join, traces.reference64, traces.candidate64)
    level.notes.append("in lockstep: every step starts from the recorded state; no free run is made")
    if not traces.candidate64.facts.get("ranks_agree", True):
        level.verdict = "different"
        level.notes.insert(0, "the ranks hold different weights: some gradient or update is not shared between them")
    return level


def _causes(first: FirstDifference, checks: Sequence[Check], evidence: Evidence, clips: bool) -> list[Cause]:
    """Looks at the first step that differs, and then at later ones: at first slots are empty, which hides their rules."""
    pairs = {"lockstep": (evidence.reference, evidence.candidate)}
    later = [check for check in checks if check.key == first.check.key and check.step > first.check.step]
    for check in [first.check, *[each for each in later if each.verdict == "different"][:LATER]]:
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


class Again:
    """Runs a step of a port once more with one thing changed, for those who look for a cause."""

    def __init__(self, replayed: Replayed) -> None:
        self._replayed = replayed
        self._made = 0

    @property
    def towers(self) -> int:
        """The number of towers."""
        return self._replayed.part.towers

    @property
    def batch_norm_updates(self) -> str:
        """Which tower's statistics survive: what a script does is not known in these words."""
        return "recorded"

    def batch(self, step: int) -> Tensors:
        """Returns a whole batch as the port is fed it."""
        return self._replayed.batch(step)

    def state(self, step: int) -> Tensors:
        """Returns the state before a step in the port's names and layouts."""
        return self._replayed.state(step)

    def repeat(
        self,
        step: int,
        batch: Callable[[Tensors], Tensors],
        state: Callable[[Tensors], Tensors],
        twice: bool = False,
    ) -> Trace:
        """Runs a step in float64 from a changed state on a changed batch; the trace's last step is the one that counts."""
        self._made += 1
        steps = [step, step + 1] if twice else [step]
        batches, states = [batch(self.batch(step))] * len(steps), [state(self.state(step))] * len(steps)
        return self._replayed.again(f"again-{self._made}", steps, batches, states)

    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace:
        """Runs a step as it is: a script's port is not built anew."""
        return self.repeat(step, lambda batch: batch, lambda state: state)

    def reference_batch(self, step: int) -> Tensors:
        """Returns a whole batch as it was recorded."""
        return self._replayed.part.batch(step)

    def translated_batch(self, batch: Tensors) -> Tensors:
        """Returns a recorded batch as the port is fed it."""
        return translated_batch(self._replayed.join, batch)

    def repeat_reference(
        self,
        step: int,
        batch_norm_updates: str | None = None,
        batch: Callable[[Tensors], Tensors] = lambda batch: batch,
    ) -> Trace | None:
        """Returns None: a script is not run again."""
        return None


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


def in_section(level: Level, name: str) -> Level:
    """Returns a level with the names of one section of a trace."""
    if not name:
        return level
    first = level.first_difference
    if first is not None:
        first = replace(first, check=_named(first.check, name))
    notes = [f"{name}: {note}" for note in level.notes]
    return replace(level, checks=[_named(check, name) for check in level.checks], first_difference=first, notes=notes)


def _named(check: Check, name: str) -> Check:
    return check._replace(key=f"section/{name}/{check.key}")


def together(levels: Sequence[Level], names: Sequence[str]) -> Level:
    """Joins the same level of several sections into one."""
    if len(levels) == 1:
        return levels[0]
    found = {level.verdict for level in levels}
    first = next((level for level in levels if level.first_difference), levels[0])
    verdict = next(each for each in ("different", "incomparable", "same", "not_run") if each in found)
    return Level(
        levels[0].name,
        verdict,
        "; ".join(f"{name}: {level.reason}" for name, level in zip(names, levels, strict=True)),
        [check for level in levels for check in level.checks],
        first.first_difference,
        first.causes,
        [note for level in levels for note in level.notes],
    )
