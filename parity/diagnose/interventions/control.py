"""The control of every experiment: what becomes of the step if nothing is changed."""

import numpy as np

from parity.diagnose.agreement import ROUNDING
from parity.diagnose.catalogue import build_cause
from parity.diagnose.interventions.probes import PROBE_STEP, Bench
from parity.diagnose.interventions.protocol import Change
from parity.judge.metrics import distance, norm
from parity.judge.result import Cause
from parity.trace.arrays import Array, Tensors

SEEDS = (1, 2, 2, 1, 1)  # what comes back in every second, third or fourth call comes after both
TIMES = 3  # one rank that does something else in every second or third call does it in one of them


def of_the_repetition(bench: Bench) -> Cause | None:
    """Returns why the candidate's step does not repeat itself, or None where it does: then a change of it says something.

    A port that draws random numbers gives the same after the same seed and something else after another. One that gives
    something else each time, though each time the same batch came before, follows neither its inputs nor its generators.
    What only depends on the batch before is left to the experiment that feeds it twice.
    """
    again = bench.candidate_once_more()
    if bench.got is None or again is None or alike(bench.got, again):
        return None
    key, apart = bench.first.check.key, _apart(bench.got, again)
    # Three calls after one seed and two after another: draws are alike within each, and differ between them.
    seeded = [bench.candidate_once_more(seed) for seed in SEEDS]
    ones, others = ([each for each, seed in zip(seeded, SEEDS, strict=True) if seed == which] for which in (1, 2))
    same = all(alike(found[0], each) for found in (ones, others) for each in found)
    if same and not alike(ones[0], others[0]):
        return build_cause(
            "random_draw",
            evidence=f"the same step once more gives another {key} of the candidate, {apart}; after the same "
            "random seed it is the "
            "same, after another seed it is not",
            key=key,
        )
    found = [bench.candidate_once_more() for _ in range(TIMES)]
    if all(each is not None and alike(each, found[0]) for each in found):
        return None
    return build_cause(
        "not_repeatable",
        evidence=f"from the same state and the same batch the candidate gives another {key} when the step is made "
        "once more, "
        f"{apart}, after the same random seed too",
        key=key,
    )


def undone_by_chance(bench: Bench, change: Change) -> bool:
    """Returns whether a difference goes away as well where the change is not made.

    What runs a batch two times is compared with another batch before it, made twice; anything else with the step as it is.
    """
    if not change.twice:
        again = bench.candidate_once_more()
        return again is None or (bool(np.isfinite(again).all()) and not _differs(bench, again))
    step = bench.first.check.step
    nearest = sorted(bench.reference.step_numbers, key=lambda each: abs(each - step))
    batches = (bench.recorder.batch(each) for each in nearest if each != step)
    other = next((each for each in batches if _shapes(each) == _shapes(bench.batch)), None)
    if other is None:
        return True
    found = [bench.candidate_with(twice=True, ahead=lambda batch: other) for _ in range(2)]
    return not all(each is not None and _differs(bench, each) for each in found) or not alike(found[0], found[1])


def _shapes(batch: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in batch.items()}


def alike(one: Array | None, other: Array | None) -> bool:
    """Returns whether two results are the same but for rounding, values that are not finite at the same places."""
    if one is None or other is None or not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return False
    finite = np.isfinite(one)
    # 1e-12: ranks may add up in another order each time, which rounds by sqrt(n) u of sums of sums.
    return distance(one[finite], other[finite]) <= 100 * ROUNDING * norm(one[finite])


def _differs(bench: Bench, got: Array) -> bool:
    allowed = bench.first.check.allowed or PROBE_STEP * norm(bench.wanted)
    return bool(np.isfinite(got).all()) and distance(bench.wanted, got) > allowed


def _apart(one: Array, other: Array) -> str:
    if one.shape != other.shape:
        return f"of shape {other.shape} where it was {one.shape}"
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return "once finite and once not"
    return f"{distance(one, other) / max(norm(one), 1e-300):.2g} of it apart"
