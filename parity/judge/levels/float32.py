"""Level 2, `float32`: does float32 differ by rounding only? Decided against what rounding was measured to do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from statistics import median
from typing import NamedTuple

from parity.judge import allowances
from parity.judge.allowances import ACCURACY_LIMIT, FORWARD_LIMIT, UNIT32
from parity.judge.judge import (
    FED,
    Comparison,
    MeasuredPair,
    Missing,
    TensorPair,
    allow,
    comparison,
    judge,
    measure,
    missing,
    rounding_between,
)
from parity.judge.levels.function import Lockstep, Lost
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.mapping.trace_map import Join
from parity.trace import UPDATED, TensorFile, TensorKey, Trace, parse_key
from parity.trace.arrays import Array

# Another order of the examples moves what belongs to single examples: only sums over them can be compared.
OF_EXAMPLES = frozenset(["act", "feed", "noise"])


@dataclass(frozen=True)
class Accuracy:
    """How accurate the sides are beside each other.

    Attributes:
      candidate: median over states of the median over gradients of the candidate's distance from its float64 run, over the
        larger of the reference's and the reference's spread under one-ulp changes; at most `ACCURACY_LIMIT`.
      reference: the same the other way round.
      states: the steps it was measured at.
      forward: median over states of the candidate's median relative distance from float64 in activations and losses.
    """

    candidate: float
    reference: float
    states: tuple[int, ...]
    forward: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the candidate is as accurate as float32 should be; what the reference is, it is."""
        return self.candidate <= ACCURACY_LIMIT or self.forward <= FORWARD_LIMIT


def judge_float32(join: Join, traces: Lockstep, draws: Sequence[Trace], steps: Sequence[int]) -> list[Check]:
    """Judges float32 runs from the same states: by `allowances.float32`.

    Args:
      join: names and layouts.
      traces: the sides in both precisions.
      draws: float32 steps of the reference under one-ulp changes and other orders of the examples, where it has the step.
      steps: those to judge.
    """
    return judge("lockstep", _pairs(join, traces, draws, steps, {}), allowances.float32)


def measure_float32(join: Join, traces: Lockstep, step: int, lost: Lost) -> list[Check | MeasuredPair]:
    """Returns what `judge_float32` holds against its allowance, of one step, before any draw is known.

    Args:
      join: names and layouts.
      traces: the sides in both precisions.
      step: its number.
      lost: what float32 loses in it, where `judge_lockstep` has measured that.
    """
    return list(measure("lockstep", _pairs(join, traces, [], [step], lost)))


def allow_float32(
    measured: Sequence[Check | MeasuredPair], drawn: Mapping[tuple[int, str], Sequence[float]]
) -> list[Check]:
    """Returns what `judge_float32` does, of what was measured before.

    Args:
      measured: of all steps, as `measure_float32` returns it.
      drawn: distances of the reference's draws by step and trace name, as they were measured.
    """
    return [allow("lockstep", _with_draws(found, drawn), allowances.float32) for found in measured]


def _with_draws(found: Check | MeasuredPair, drawn: Mapping[tuple[int, str], Sequence[float]]) -> Check | MeasuredPair:
    if isinstance(found, Check) or found.key.quantity in OF_EXAMPLES:
        return found
    # Beside what is not finite nothing is measured, as `rounding_between` has it.
    more = [each for each in drawn.get((found.step, found.text), ()) if isfinite(each)]
    return found._replace(rounding=(*found.rounding, *more))


def _pairs(
    join: Join, traces: Lockstep, draws: Sequence[Trace], steps: Sequence[int], lost: Lost
) -> Iterator[TensorPair | Missing]:
    unobserved = traces.candidate32.facts.get("unobserved", ())
    for step in steps:
        reference, candidate = traces.reference32.step(step), traces.candidate32.step(step)
        exact = traces.reference64.step(step), traces.candidate64.step(step)
        before = traces.states.step(step)
        # Draws were made at three steps; elsewhere eT and eP decide alone.
        moved = [draw.step(step) for draw in draws if step in draw.step_numbers]
        for key, text in join.ordered(reference.names()):
            one, other = reference.read(text), join.read(key, candidate)
            if other is None:
                yield missing(step, key, text, unobserved)
                continue
            # As in level 1 by the update; the state is float32, and so is what is subtracted.
            start = before.read(text) if key.quantity in UPDATED and text in before else None
            pair = TensorPair(step, key, text, one, other, start, _comparison(key, one))
            yield pair._replace(rounding=partial(_rounding, join, pair, *exact, moved, lost))


def _comparison(key: TensorKey, reference: Array) -> Comparison:
    # Integers that a step makes, as indices of a top-k, may flip where float32 rounds; level 1 compares them in
    # float64.
    found = comparison(key, reference)
    return "form" if found == "exact" and key.quantity not in FED else found


def _rounding(
    join: Join,
    pair: TensorPair,
    reference64: TensorFile,
    candidate64: TensorFile,
    moved: Sequence[TensorFile],
    lost: Lost,
) -> list[float | None]:
    """Returns eT, eP, and the distances of the draws; beside what is not finite nothing is measured."""
    one, text = pair.reference, pair.text
    known = lost.get(text) or [
        rounding_between(one, reference64.read(text)),
        rounding_between(pair.candidate, join.read(pair.key, candidate64)),
    ]
    # W and S: distances of the reference's perturbed steps, at the three steps that have them.
    drawn = [] if pair.key.quantity in OF_EXAMPLES else [file for file in moved if text in file]
    return known + [rounding_between(file.read(text), one) for file in drawn]


class StepErrors(NamedTuple):
    """What float32 loses in one step.

    Fields:
      gradients: by trace name of each combined gradient that has a ratio: eT, eP, and what storing alone may lose.
      forward: the candidate's median relative distance from float64 in activations and losses; empty where there is none.
    """

    gradients: dict[str, tuple[float, float, float]]
    forward: list[float]


# Of a combined gradient: the largest distance of a draw from the unperturbed step, on the reference and the candidate.
Spreads = Mapping[str, tuple[float, float]]


def measure_errors(join: Join, traces: Lockstep, step: int) -> StepErrors:
    """Measures what both sides' float32 loses in one step."""
    found = {text: _errors(join, traces, step, text) for text in _gradients(traces, step)}
    # Of the candidate alone: what the reference's precision is, the port has to match.
    return StepErrors({text: each for text, each in found.items() if each is not None}, _forward(traces, step))


def judge_accuracy(
    join: Join, traces: Lockstep, reference_draws: Sequence[Trace], candidate_draws: Sequence[Trace]
) -> Accuracy:
    """Measures whether a side computes in less than float32: lower precision hides in its own distance from float64."""
    # Where the draws are: without the spread a side that flips a branch by chance would look less accurate.
    steps = sorted({step for draw in reference_draws for step in draw.step_numbers})
    errors = {step: measure_errors(join, traces, step) for step in steps}
    spreads = {
        step: {text: _spreads(join, traces, reference_draws, candidate_draws, step, text) for text in each.gradients}
        for step, each in errors.items()
    }
    return accuracy_of(errors, spreads)


def accuracy_of(errors: Mapping[int, StepErrors], spreads: Mapping[int, Spreads]) -> Accuracy:
    """Returns how accurate the sides are beside each other.

    Args:
      errors: what float32 loses, by step.
      spreads: of the gradients in these steps.
    """
    forwards, backwards, activations = [], [], []
    for step, each in errors.items():
        ratios = [_ratios(lost, spreads[step][text]) for text, lost in each.gradients.items()]
        if ratios:
            forwards.append(median(pair[0] for pair in ratios))
            # Medians twice, over gradients and over states: one flipped branch spoils some gradients of one state, low
            # precision all of all.
            backwards.append(median(pair[1] for pair in ratios))
        activations += each.forward
    if not forwards:
        # Without draws, as where only level 1 was asked for, there is nothing to hold either side against.
        return Accuracy(0.0, 0.0, ())
    steps = tuple(errors)
    return Accuracy(median(forwards), median(backwards), steps, median(activations) if activations else 0.0)


def _forward(traces: Lockstep, step: int) -> list[float]:
    rough, exact = traces.candidate32.step(step), traces.candidate64.step(step)
    found = []
    for text in rough.names("act", "loss"):
        if text in exact and rough.shape(text) == exact.shape(text):
            one = exact.read(text)
            # Relative, so that an output of zeros has none.
            if one.dtype.kind == "f" and 0.0 < norm(one) < float("inf"):
                found.append(distance(rough.read(text), one) / norm(one))
    return [median(found)] if found and all(isfinite(each) for each in found) else []


def _gradients(traces: Lockstep, step: int) -> list[str]:
    return traces.reference32.step(step).names("grad")


def _errors(join: Join, traces: Lockstep, step: int, text: str) -> tuple[float, float, float] | None:
    # Of a weight that one side alone has there is no ratio.
    key = next((key for key, _ in join.ordered([text])), None)
    if key is None:
        return None  # of a variable without counterpart
    one, one64 = traces.reference32.step(step).read(text), traces.reference64.step(step).read(text)
    other, other64 = join.read(key, traces.candidate32.step(step)), join.read(key, traces.candidate64.step(step))
    # A gradient of zero in float64 has an accuracy of nothing: its float32 is rounding alone.
    if other is None or other64 is None or other.shape != one.shape or not norm(one64) > 0.0:
        return None
    if not all(isfinite(norm(each)) for each in (one, one64, other, other64)):
        return None  # told by the checks; accuracy is a question between finite numbers
    # What storing alone may lose: without it a gradient that happens to round to nothing divides by nothing.
    floor = 2 * UNIT32 * norm(one)
    return distance(one, one64), distance(other, other64), floor  # eT and eP, each of its own side


def _spreads(
    join: Join,
    traces: Lockstep,
    reference_draws: Sequence[Trace],
    candidate_draws: Sequence[Trace],
    step: int,
    text: str,
) -> tuple[float, float]:
    one = traces.reference32.step(step).read(text)
    # By the spread too, for eT may be small by luck: eT and eP of right ports are up to 8.3 apart in 99% of an LSTM's
    # gradients.
    reference_spread = max(distance(draw.step(step).read(text), one) for draw in reference_draws)
    files = [draw.step(step) for draw in candidate_draws]
    return reference_spread, candidate_spread(join, text, traces.candidate32.step(step), files)


def candidate_spread(join: Join, text: str, candidate: TensorFile, draws: Sequence[TensorFile]) -> float:
    """Returns the largest distance of the candidate's draws of one step from that step, in a tensor of the reference.

    Args:
      join: names and layouts.
      text: its trace name.
      candidate: the unperturbed step.
      draws: the same step under perturbation.
    """
    key = parse_key(text)
    # The port's draws are measured against its own unperturbed step, in the reference's layout.
    other, largest = join.read(key, candidate), 0.0
    for draw in draws:
        moved = join.read(key, draw)
        largest = max(largest, distance(moved, other)) if moved is not None and other is not None else largest
    return largest


def _ratios(lost: tuple[float, float, float], spreads: tuple[float, float]) -> tuple[float, float]:
    (rough, rough_other, floor), (reference, candidate) = lost, spreads
    return rough_other / (max(rough, reference) + floor), rough / (max(rough_other, candidate) + floor)


def spread_kinds(draws: Mapping[str, Sequence[Trace]]) -> str:
    """Returns how many draws of which kind were made, in words."""
    return ", ".join(f"{len(found)} {kind}" for kind, found in draws.items())
