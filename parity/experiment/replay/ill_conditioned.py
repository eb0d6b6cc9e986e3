"""Judges a replayed port where rounding decides, by what the shadow left, and finds numbers that are not the graph's."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from parity.experiment.rejudge.ill_conditioned import empty_in, measure_kept
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE, RUN_BESIDE, WITH_INPUTS
from parity.experiment.rejudge.rules import NonDifferentiablePoint, Rule, StructurallyZeroGradient
from parity.experiment.replay.free_run import judge_freely, told_of_shadow, train_freely
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.script import Part, write_reference
from parity.judge.allowances import FUNCTION_LIMIT
from parity.judge.levels.function import Lockstep, judge_lockstep
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.mapping.states import translated, write_states
from parity.trace import OPTIMIZED, SHADOW_EMPTY, SHADOW_TIES, SHADOW_TIES_OF_INPUTS, Trace, TraceError, parse_key
from parity.trace.arrays import Array, Tensors

SILENT = (
    "at non-differentiable points, and where a gradient is structurally zero, a right port may be called different here: "
    "the float64 shadow does not hold what rounding does there; "
)
NO_ROUNDING_RUNS = "make it again with python -m tf_towers.shadow, where TensorFlow is"


class ReplayedBeside:
    """Runs a replayed port beside a kink and judges it by the steps that the shadow left there, as `settle_kinks` asks.

    Args:
      replayed: the port of one part.
      aside: the shadow's steps at kinks.
      traces: of the lockstep runs.
      checks: of level 1.
      out: folder for what is written.
      inputs: whether inputs and zeros were moved there too.
    """

    def __init__(
        self, replayed: ReplayedPort, aside: Trace, traces: Lockstep, checks: Sequence[Check], out: Path, inputs: bool
    ) -> None:
        self._replayed, self._aside, self._traces, self._out = replayed, aside, traces, out
        self._checks, self._inputs, self._name = checks, inputs, RUN_BESIDE[inputs]
        steps = [number for number in replayed.part.steps if number in aside.step_numbers]
        self._at_kinks = replace(replayed.part, steps=steps, aside="inputs" if inputs else "weights")

    @property
    def note(self) -> str:
        """What a check says that was judged there."""
        return WITH_INPUTS if self._inputs else NON_DIFFERENTIABLE_NOTE

    def once_more(self) -> list[Check]:
        """Returns the checks of the lockstep with the port run once more from the recorded weights."""
        part, join = self._replayed.part, self._replayed.join
        before = ((number, translated(join, part.before(number))) for number in part.steps)
        port = self._replayed.run_from("once-more", before)
        return judge_lockstep(join, self._traces._replace(candidate64=port), part.steps)

    def alone(self, step: int) -> list[Check]:
        """Returns the checks of one step, as they are in order: the recorded learning rates are given step by step."""
        return [check for check in self._lockstep if check.step == step]

    def in_lockstep(self) -> list[Check]:
        """Returns the checks of the steps with a kink, of all steps run in their order."""
        return list(self._lockstep)

    @cached_property
    def _lockstep(self) -> list[Check]:
        part, at_kinks, name = self._replayed.part, self._at_kinks, self._name
        if not at_kinks.steps:
            return []
        before = ((number, translated(self._replayed.join, at_kinks.before(number))) for number in part.steps)
        port = self._replayed.run_from(name, before, self._feeds)
        states = write_states(
            self._out / f"{name}-before", ((number, at_kinks.before(number)) for number in at_kinks.steps)
        )
        reference = write_reference(at_kinks, self._aside, self._out / f"reference-{name}")
        traces = self._traces._replace(reference64=reference, candidate64=port, states=Trace(states))
        return judge_lockstep(self._replayed.join, traces, at_kinks.steps)

    @cached_property
    def _feeds(self) -> Path | None:
        return self._replayed.write_feeds(self._name, self._at_kinks) if self._inputs else None

    def free(self, lockstep: Sequence[Check]) -> list[Check]:
        """Returns the checks of the free runs; none where the shadow has no such run."""
        runs, _ = train_freely(self._replayed, self._aside, self._out, f"free-{self._name}", self._feeds)
        if runs is None:
            return []
        # What the other steps round their own checks say: they are the same beside a kink and at it.
        others = [check for check in self._checks if check.step not in self._at_kinks.steps]
        return judge_freely(self._replayed.join, runs, [*others, *lockstep])


def rules_of_replay(replayed: ReplayedPort, shadow: Trace, traces: Lockstep, out: Path) -> list[Rule]:
    """Returns the rules of a replay, as far as the shadow says what rounding does there.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      traces: of the lockstep runs.
      out: folder for what is written.
    """
    empty = left_by(shadow, SHADOW_EMPTY)

    def besides(checks: Sequence[Check]) -> list[ReplayedBeside]:
        return [
            ReplayedBeside(replayed, aside, traces, checks, out, name == SHADOW_TIES_OF_INPUTS)
            for name in (SHADOW_TIES, SHADOW_TIES_OF_INPUTS)
            if (aside := left_by(shadow, name)) is not None
        ]

    rules: list[Rule] = [NonDifferentiablePoint(besides)]
    if empty is not None:
        rules.append(StructurallyZeroGradient(measure_kept(empty, replayed.part.prefix)))
    return rules


def left_by(shadow: Trace, name: str) -> Trace | None:
    """Returns what a shadow left beside it under a name; None for a shadow of before, and one that was not finished."""
    try:
        return Trace(Path(shadow.directory) / name)
    except TraceError:
        return None


def beside_notes(checks: Sequence[Check], part: Part, shadow: Trace) -> list[str]:
    """Returns what a report says where numbers differ and the shadow does not tell what rounding does there."""
    told = left_by(shadow, SHADOW_TIES) is not None and left_by(shadow, SHADOW_EMPTY) is not None
    if told or all(check.verdict != "different" for check in checks):
        return []
    return [SILENT + (told_of_shadow(part, "rounding") or NO_ROUNDING_RUNS)]


# Says where a recorded script's own numbers are not what its graph says, though no rounding explains it.

FAR = 2.0**14  # unit roundoffs of float32: more than rounding does in anything but deep nets, less than any race seen


def race_notes(part: Part, traces: Lockstep, shadow: Trace, checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of a script whose own numbers are far from those of its graph.

    What float32 makes of a gradient of nothing but rounding is far from float64, and so is a gradient at a kink: neither
    is a race.

    Args:
      part: of the recorded trace.
      traces: of the lockstep runs.
      shadow: the float64 shadow of the trace.
      checks: of level 1.
    """
    worst: dict[str, tuple[float, str]] = {}
    empty = empty_in(checks)
    for number in part.steps:
        rough, exact = traces.reference32.step(number), traces.reference64.step(number)
        total = float(sum(norm(exact.read(text)) ** 2 for text in exact.names("grad")) ** 0.5)
        beside = _beside(part, shadow, number, SHADOW_TIES), _beside(part, shadow, number, SHADOW_TIES_OF_INPUTS)
        for text in rough.names():
            key, one = parse_key(text), rough.read(text)
            if one.dtype.kind != "f" or key.quantity in ("state", "feed"):
                continue
            if key.quantity in OPTIMIZED and (number, key.name) in empty:
                continue
            wanted = exact.read(text)
            size = norm(wanted)
            size = max(size, 1e-3 * total) if key.quantity in ("grad", "tower_grad") else size
            apart = 0.0 if any(_jumps(one, wanted, each.get(text)) for each in beside) else distance(one, wanted)
            units = apart / (2.0**-24 * size) if size else 0.0
            worst[key.quantity] = max(worst.get(key.quantity, (0.0, "")), (units, f"{text} of step {number}"))
    return [
        f"the script's own {quantity} is not what its graph computes: {where} is {units:.2g} unit roundoffs from it. "
        "It races, or changes variables between its steps; level 1 judges what the graph computes."
        for quantity, (units, where) in worst.items()
        if units > FAR
    ]


def _beside(part: Part, shadow: Trace, number: int, name: str) -> Tensors:
    aside = left_by(shadow, name)
    if aside is None or number not in aside.step_numbers:
        return {}
    moved: Literal["weights", "inputs"] = "weights" if name == SHADOW_TIES else "inputs"
    return replace(part, aside=moved).tensors(number, aside.step(number))


def _jumps(one: Array, wanted: Array, beside: Array | None) -> bool:
    """Tells whether a number is no farther from float64's than what a move of weights and inputs by 2^-30 makes of that."""
    return beside is not None and distance(one, wanted) <= FUNCTION_LIMIT * distance(beside, wanted)
