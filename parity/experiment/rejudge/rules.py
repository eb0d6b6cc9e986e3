"""The ordered rules that judge again what rounding decides, and which of them a case has."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from parity.experiment.recording import Recorded, Setup, SidePaths
from parity.experiment.rejudge.ill_conditioned import (
    Moves,
    lost_to_rounding,
    measure_kept,
    measure_live,
    settle_empty_gradients,
)
from parity.experiment.rejudge.non_differentiable import RUN_BESIDE, Beside, LiveRuns, lost_numbers, settle_kinks
from parity.experiment.rejudge.races import Races, settle_races
from parity.experiment.runs import REPLICAS
from parity.experiment.sides.tensorflow_side import ReferenceSide
from parity.experiment.spec import Capability
from parity.judge.levels.function import Lockstep
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import SHADOW_EMPTY, Trace

NO_RUNS_BESIDE = (
    "at non-differentiable points, and where a gradient is structurally zero, a right port may be called different here: "
    "the golden trace does not hold what rounding does there. Bless the case again."
)


# The order in which rules are applied. Races first: what they leave to the order of towers is no difference that rounding
# has to explain. Then gradients, by which a difference of updates alone goes away; last what runs both sides again.
ILL_CONDITIONED = ("race", "structurally_zero_gradient", "non_differentiable_point")


class Rule(Protocol):
    """Judges again what rounding, or the order of a race, decides, and not the port."""

    @property
    def name(self) -> str:
        """One of `ILL_CONDITIONED`."""

    def applies(self, checks: Sequence[Check], /) -> bool:
        """Returns whether any of the checks are the rule's to judge; it costs no run to ask."""

    def __call__(self, checks: list[Check], /) -> list[Check]:
        """Returns the checks, those that it judged again with a note."""


def rejudge(checks: list[Check], rules: Iterable[Rule]) -> list[Check]:
    """Returns checks after all rules that apply, each to what the one before it left, in the order of `ILL_CONDITIONED`."""
    # Each rule sees what the ones before it left: one difference is explained once, by the cheapest rule.
    for rule in sorted(rules, key=lambda each: ILL_CONDITIONED.index(each.name)):
        # Asking costs no run; most right ports need no rule.
        if rule.applies(checks):
            checks = rule(checks)
    return checks


class Race(NamedTuple):
    """What the reference writes in no order, judged against every order: `settle_races`.

    Fields:
      races: None where nothing races.
      join: names and layouts.
      traces: the lockstep runs.
      precision: that the level decides in, "float64" or "float32".
    """

    races: Races | None
    join: Join
    traces: Lockstep
    precision: str
    name: str = "race"

    def applies(self, checks: Sequence[Check]) -> bool:
        """Returns whether anything races."""
        return self.races is not None

    def __call__(self, checks: list[Check]) -> list[Check]:
        """Returns the checks, those of what races judged against the possible orders."""
        return settle_races(checks, self.races, self.join, self.traces, self.precision)


class StructurallyZeroGradient(NamedTuple):
    """Gradients of nothing but rounding and updates by them, judged by what rounding does: `settle_empty_gradients`.

    Fields:
      measure: takes the checks of such tensors; returns a function of each to the distance that rounding makes.
    """

    measure: Callable[[Sequence[Check]], Moves]
    name: str = "structurally_zero_gradient"

    def applies(self, checks: Sequence[Check]) -> bool:
        """Returns whether such a gradient or update differs."""
        return bool(lost_to_rounding(checks))

    def __call__(self, checks: list[Check]) -> list[Check]:
        """Returns the checks, those of such tensors judged again."""
        return settle_empty_gradients(checks, self.measure)


class NonDifferentiablePoint(NamedTuple):
    """Ties that rounding breaks, judged with weights perturbed alike, then with inputs too: `settle_kinks`.

    Fields:
      besides: takes the checks; returns what runs and judges the sides there, from the least perturbation to the most.
    """

    besides: Callable[[Sequence[Check]], Sequence[Beside]]
    name: str = "non_differentiable_point"

    def applies(self, checks: Sequence[Check]) -> bool:
        """Returns whether all that differs are numbers of steps: no tie makes anything else differ."""
        return bool(lost_numbers(checks))

    def __call__(self, checks: list[Check]) -> list[Check]:
        """Returns the checks, those judged again that differ at such a point and nowhere near."""
        return settle_kinks(checks, self.besides(checks))


def race_of(recorded: Recorded, precision: str = "float64") -> Race:
    """Returns the rule about what races in what was recorded of a case."""
    return Race(recorded.races, recorded.join, recorded.lockstep, precision)


def rules_of_case(recorded: Recorded, playing: Setup, states: SidePaths) -> list[Rule]:
    """Returns the rules of a case, by live runs of the reference or by what a golden trace keeps of them.

    Args:
      recorded: what the checks are about.
      playing: the sides.
      states: the states before each step.
    """
    rules: list[Rule] = [race_of(recorded)]
    live = Capability.RERUN in playing.tf.capabilities
    if live:
        rules.append(StructurallyZeroGradient(lambda lost: measure_live(recorded, playing, states, lost)))
    elif (empty := playing.tf.kept(SHADOW_EMPTY)) is not None:
        rules.append(StructurallyZeroGradient(measure_kept(Trace(empty))))
    # Where statistics race, free and lockstep runs differ from one another whatever is moved.
    if not recorded.races:
        # A golden trace has only the moves that its own steps needed.
        known = [inputs for inputs, name in RUN_BESIDE.items() if live or _is_kept(playing.tf, name)]
        runs = [(inputs, LiveRuns(recorded, playing, states, inputs)) for inputs in known]
        rules.append(
            NonDifferentiablePoint(
                lambda checks: [Beside(recorded.join, recorded.lockstep, checks, *each) for each in runs]
            )
        )
    return rules


def _is_kept(golden: ReferenceSide, name: str) -> bool:
    free = [f"free-{name}", *(f"free-{name}-replica-{number}" for number in range(REPLICAS))]
    return all(golden.kept(each) for each in [name, *free])


def settled_notes(checks: Sequence[Check], golden: Path | None) -> list[str]:
    """Returns what a report says where numbers differ and a golden trace does not tell what rounding does there."""
    told = golden is None or (golden / "runs" / SHADOW_EMPTY).is_dir()
    return [NO_RUNS_BESIDE] if not told and any(check.verdict == "different" for check in checks) else []
