"""Level 2, `float32`: does float32 differ by rounding only? Decided against what rounding was measured to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

from parity.judge.levels.function import UPDATED, Lockstep, judge_counter
from parity.judge.metrics import distance, is_constant, norm
from parity.judge.result import EXACT, Check, judge_exact, refuse, rounding_of
from parity.mapping.trace_map import OPTIONAL, Join
from parity.trace import Trace

LIMIT = 3.0
UNIT32 = 2.0**-24
# Measured: a kernel that sums 25,000 values naively (batch norm over channels-last tensors on the CPU, in either framework)
# reaches 13, TensorFloat-32 at least 390. Above NOTED the report says which side is the less accurate one.
ACCURACY_LIMIT = 64.0
ACCURACY_NOTED = 4.0
# Branch flips make gradients, never activations, 1e-3 off in plain float32, and a side that sums carelessly flips where the
# other does not. Activations in TensorFloat-32 are 3e-4 off and more, after careless sums 4e-5 (measured).
FORWARD_LIMIT = 2.0**-13


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
    """Judges float32 runs from the same states: ``3 (max(eT, eP, W, S) + 2 u ||T||)``.

    eT and eP are the distances of the sides from their own float64 runs; W and S are the reference's spread under one-ulp
    changes of weights and inputs and under another order of the examples in each shard, where `draws` has the step. By the
    triangle inequality two sides that are the same function (level 1) can never exceed it.
    """
    checks: list[Check] = []
    for step in steps:
        one32, one64 = traces.reference32.step(step), traces.reference64.step(step)
        other32, other64 = traces.candidate32.step(step), traces.candidate64.step(step)
        before = traces.states.step(step)
        spread = [draw.step(step) for draw in draws if step in draw.step_numbers]
        for key, text in join.ordered(one32.names()):
            one, other = one32.read(text), join.read(key, other32)
            if key.quantity in OPTIONAL:
                checks.append(judge_counter("lockstep", step, key, text, one, other))
                continue
            refused = refuse("lockstep", step, text, one, other, traces.candidate32.facts.get("unobserved", ()))
            if refused or other is None:
                checks += [refused] if refused else []
                continue
            if key.quantity in EXACT or one.dtype.kind != "f":
                if key.quantity in EXACT:
                    checks.append(judge_exact("lockstep", step, text, one, other))
                continue
            exact = join.read(key, other64)
            told = [rounding_of(one, one64.read(text)), rounding_of(other, exact)]
            # Another order of the examples moves what belongs to single examples: only sums over them can be compared.
            per_example = key.quantity in ("act", "feed", "noise")
            told += [rounding_of(file.read(text), one) for file in spread if text in file and not per_example]
            rough = [each for each in told if each is not None]  # beside what is not finite nothing is measured
            moved = distance(one, before.read(text)) if key.quantity in UPDATED and text in before else norm(one)
            allowed = LIMIT * (max(rough, default=0.0) + 2 * UNIT32 * moved)
            difference = distance(one, other)
            verdict = "same" if difference <= allowed else "different"
            size, scale = norm(one), max(rough, default=0.0) / UNIT32 + moved
            checks.append(
                Check("lockstep", step, text, verdict, difference, allowed, scale, size, "", is_constant(one))  # type: ignore[arg-type]
            )
    return checks


def judge_accuracy(
    join: Join, traces: Lockstep, reference_draws: Sequence[Trace], candidate_draws: Sequence[Trace]
) -> Accuracy:
    """Measures whether a side computes in less than float32: lower precision hides in its own distance from float64."""
    steps = sorted({step for draw in reference_draws for step in draw.step_numbers})
    forwards, backwards, activations = [], [], []
    for step in steps:
        ratios = [
            _ratios(join, traces, reference_draws, candidate_draws, step, text) for text in _gradients(traces, step)
        ]
        found = [pair for pair in ratios if pair is not None]
        if found:
            forwards.append(median(pair[0] for pair in found))
            backwards.append(median(pair[1] for pair in found))
        activations += _forward(traces, step)
    if not forwards:
        return Accuracy(0.0, 0.0, ())
    return Accuracy(median(forwards), median(backwards), tuple(steps), median(activations) if activations else 0.0)


def _forward(traces: Lockstep, step: int) -> list[float]:
    rough, exact = traces.candidate32.step(step), traces.candidate64.step(step)
    found = []
    for text in rough.names():
        if text.startswith(("act/", "loss/")) and text in exact and rough.shape(text) == exact.shape(text):
            one = exact.read(text)
            if one.dtype.kind == "f" and 0.0 < norm(one) < float("inf"):
                found.append(distance(rough.read(text), one) / norm(one))
    return [median(found)] if found and all(isfinite(each) for each in found) else []


def _gradients(traces: Lockstep, step: int) -> list[str]:
    return [text for text in traces.reference32.step(step).names() if text.startswith("grad/")]


def _ratios(
    join: Join,
    traces: Lockstep,
    reference_draws: Sequence[Trace],
    candidate_draws: Sequence[Trace],
    step: int,
    text: str,
) -> tuple[float, float] | None:
    key = next((key for key, _ in join.ordered([text])), None)
    if key is None:
        return None  # of a variable without counterpart
    one, one64 = traces.reference32.step(step).read(text), traces.reference64.step(step).read(text)
    other, other64 = join.read(key, traces.candidate32.step(step)), join.read(key, traces.candidate64.step(step))
    if other is None or other64 is None or other.shape != one.shape or not norm(one64) > 0.0:
        return None
    if not all(isfinite(norm(each)) for each in (one, one64, other, other64)):
        return None  # told by the checks; accuracy is a question between finite numbers
    floor = 2 * UNIT32 * norm(one)
    reference_spread = max(distance(draw.step(step).read(text), one) for draw in reference_draws)
    candidate_spread = 0.0
    for draw in candidate_draws:
        moved = join.read(key, draw.step(step))
        candidate_spread = max(candidate_spread, distance(moved, other)) if moved is not None else candidate_spread
    rough, rough_other = distance(one, one64), distance(other, other64)
    return (
        rough_other / (max(rough, reference_spread) + floor),
        rough / (max(rough_other, candidate_spread) + floor),
    )


def spread_kinds(draws: Mapping[str, Sequence[Trace]]) -> str:
    """Returns how many draws of which kind were made, in words."""
    return ", ".join(f"{len(found)} {kind}" for kind, found in draws.items())
