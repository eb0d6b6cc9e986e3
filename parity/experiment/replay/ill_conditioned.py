"""Judges a replayed port where rounding decides, by what the shadow left, and finds numbers that are not the graph's."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from parity.experiment.rejudge.ill_conditioned import empty_in, measure_kept
from parity.experiment.rejudge.non_differentiable import RUN_BESIDE, Beside
from parity.experiment.rejudge.rules import NonDifferentiablePoint, Rule, StructurallyZeroGradient
from parity.experiment.replay.free_run import told_of_shadow, train_freely
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.script import Part
from parity.experiment.sides.recorded_side import RecordedSide
from parity.judge.allowances import FUNCTION_LIMIT
from parity.judge.levels.function import Lockstep
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.judge.spread import Spread
from parity.mapping.states import translated
from parity.trace import OPTIMIZED, SHADOW_EMPTY, SHADOW_TIES, SHADOW_TIES_OF_INPUTS, Trace, TraceError, parse_key
from parity.trace.arrays import Array, Tensors

SILENT = (
    "at non-differentiable points, and where a gradient is structurally zero, a right port may be called different here: "
    "the float64 shadow does not hold what rounding does there; "
)
NO_ROUNDING_RUNS = "make it again with python -m tf_towers.shadow, where TensorFlow is"
NO_ROUNDING_OF_TORCH = "that of a recorded PyTorch program never does"


class ReplayedRuns:
    """Runs a replayed port from where the shadow was moved, beside the steps that the shadow left there.

    Args:
      replayed: the port of one part.
      aside: the shadow's steps at kinks.
      traces: of the lockstep runs.
      out: folder for what is written.
      inputs: whether inputs and zeros were moved there too.
    """

    def __init__(self, replayed: ReplayedPort, aside: Trace, traces: Lockstep, out: Path, inputs: bool) -> None:
        self._replayed, self._aside, self._traces, self._out = replayed, aside, traces, out
        self._inputs, self._name = inputs, RUN_BESIDE[inputs]
        steps = [number for number in replayed.part.steps if number in aside.step_numbers]
        self._at_kinks = replace(replayed.part, steps=steps, aside="inputs" if inputs else "weights")

    def candidate_once_more(self) -> Trace:
        """Returns the port's lockstep run once more, from the recorded states."""
        part, join = self._replayed.part, self._replayed.join
        before = ((number, translated(join, part.before(number))) for number in part.steps)
        return self._replayed.run_from("once-more", before)

    def lockstep(self, step: int | None = None) -> Lockstep | None:
        """Returns the traces of the steps with a kink, of all steps run in their order: rates are given step by step."""
        return self._lockstep if self._at_kinks.steps else None

    @cached_property
    def _lockstep(self) -> Lockstep:
        part, at_kinks, name = self._replayed.part, self._at_kinks, self._name
        # All steps, for rates go by the step of a build; only those with a kink are judged.
        before = ((number, translated(self._replayed.join, at_kinks.before(number))) for number in part.steps)
        port = self._replayed.run_from(name, before, self._feeds)
        side = RecordedSide(at_kinks, self._aside, self._out)
        reference = side.run(name, "float64")
        return self._traces._replace(reference64=reference, candidate64=port, states=side.states(f"{name}-before"))

    @cached_property
    def _feeds(self) -> Path | None:
        return self._replayed.write_feeds(self._name, self._at_kinks) if self._inputs else None

    def freely(self) -> tuple[Trace, Trace, Spread] | None:
        """Returns the free runs of both, and how far an ulp carries; None where the shadow has no such run."""
        runs, _ = train_freely(self._replayed, self._aside, self._out, f"free-{self._name}", self._feeds)
        return (runs.reference, runs.candidate, runs.spread) if runs is not None else None


def rules_of_replay(replayed: ReplayedPort, shadow: Trace, traces: Lockstep, out: Path) -> list[Rule]:
    """Returns the rules of a replay, as far as the shadow says what rounding does there.

    Args:
      replayed: the port of one part.
      shadow: the float64 shadow of the recorded trace.
      traces: of the lockstep runs.
      out: folder for what is written.
    """
    empty = left_by(shadow, SHADOW_EMPTY)

    runs = [
        (inputs, ReplayedRuns(replayed, aside, traces, out, inputs))
        for inputs, name in ((False, SHADOW_TIES), (True, SHADOW_TIES_OF_INPUTS))
        if (aside := left_by(shadow, name)) is not None
    ]

    def besides(checks: Sequence[Check]) -> list[Beside]:
        return [Beside(replayed.join, traces, checks, *each) for each in runs]

    rules: list[Rule] = [NonDifferentiablePoint(besides)]
    if empty is not None:
        rules.append(StructurallyZeroGradient(measure_kept(empty, replayed.part.prefix)))
    return rules


def left_by(shadow: Trace, name: str) -> Trace | None:
    """Returns what a shadow left beside it under a name; None for a shadow of before, and one that was not finished."""
    try:
        return Trace(Path(shadow.directory) / name)
    except TraceError:  # refused, it is in the notes: see `refused_parts`
        return None


def beside_notes(checks: Sequence[Check], part: Part, shadow: Trace) -> list[str]:
    """Returns what a report says where numbers differ and the shadow does not tell what rounding does there."""
    told = left_by(shadow, SHADOW_TIES) is not None and left_by(shadow, SHADOW_EMPTY) is not None
    if told or all(check.verdict != "different" for check in checks):
        return []
    why = NO_ROUNDING_OF_TORCH if part.of_torch else told_of_shadow(part, "rounding") or NO_ROUNDING_RUNS
    return [SILENT + why]


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
        # Of a gradient that is small beside all others, rounding of the others is in it: its size is no measure.
        total = float(sum(norm(exact.read(text)) ** 2 for text in exact.names("grad")) ** 0.5)
        beside = _beside(part, shadow, number, SHADOW_TIES), _beside(part, shadow, number, SHADOW_TIES_OF_INPUTS)
        for text in rough.names():
            key, one = parse_key(text), rough.read(text)
            if one.dtype.kind != "f" or key.quantity in ("state", "feed"):
                continue
            # Adam divides such a gradient by its own size: float32 and float64 take unlike steps, and neither races.
            if key.quantity in OPTIMIZED and (number, key.name) in empty:
                continue
            wanted = exact.read(text)
            size = norm(wanted)
            size = max(size, 1e-3 * total) if key.quantity in ("grad", "tower_grad") else size
            # What a move by 2^-30 of weights or inputs makes of it, float32 may make too.
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
