"""Causes in what stands between a layer and its output: padding, pooling, dropout, response normalisation, lookups."""

from itertools import permutations

import numpy as np

from parity.diagnose.agreement import CLOSE, LEFT, common_factor, explained, fit
from parity.diagnose.catalogue import build_cause
from parity.diagnose.detectors.forward import left_by_channels, outputs
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import as_dropout_keeps, likely_share
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace import key_of
from parity.trace.arrays import Array

BORDER = 3
FEWEST_AT_BORDER = 8  # values that differ: fewer may do so at the border for any reason
POOL_SIZES = (4, 9)  # values of a window of 2 x 2 and of 3 x 3: the mean is at least one over them of the largest
# Of the positive values, those that dropout in front of a pooling scales by exactly 1 / p, about p of them. Chosen:
# where it keeps less than a quarter, nearly all windows have lost their largest value.
LEAST_SHARE_KEPT = 0.25
RADII = range(6)
LEAST_DROPPED = 1.001  # what dropout that keeps 99.9% scales by
# Of a logarithm that is fitted by its first term: the next one of ln(1 + t) is t^2 / 2, which is 2e-2 of t where a s is
# 4e-2 of k.
SECOND_ORDER = 2e-2


def border(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Only the border of the images differs: padding."""
    found = outputs(first, evidence)
    # Padding moves what the windows at the border see and nothing inside: a scale and shift per channel would be a
    # norm.
    if found is None or found[0].ndim != 4 or left_by_channels(*found) <= 1e-7:
        return None
    one, other = found
    if min(one.shape[1:3]) <= 2 * BORDER + 1 or (one != other).sum() < FEWEST_AT_BORDER:
        return None
    inner = (slice(None), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    left = other[inner] - one[inner]
    same = norm(left) <= CLOSE * norm(one[inner]) and explained(left, other - one, one)
    if not same and left_by_channels(one[inner], other[inner]) > 1e-7:
        return None
    return build_cause(
        "border",
        evidence=f"{BORDER} pixels from the border on, the channels are the same"
        + ("" if same else " up to the scale and shift that batch norm gives them")
        + "; at the border they are not",
        tensor=first.name,
    )


def pooling(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side averages over windows where the other takes the largest value, of values that are not negative."""
    found = outputs(first, evidence)
    if found is None or found[0].ndim != 4:
        return None
    for one, other, averaging, largest in (
        (*found, "candidate", "reference"),
        (found[1], found[0], "reference", "candidate"),
    ):
        positive = one > 0
        if (one < 0).any() or (other[~positive] != 0).any() or (other[positive] <= 0).any():
            # Means of positive values are positive wherever the largest is, and lie between it and its 1/n: no other
            # pooling does both. Negative values would let a mean be of either sign.
            continue
        ratio = other[positive] / one[positive]
        # (1 - 1e-6) / n for rounding of the mean; the smallest window that allows it is the one that is named.
        window = next((n for n in POOL_SIZES if ratio.min() >= (1 - 1e-6) / n), 0)
        # Somewhere a window holds one value alone, so that its mean is about 1/n of it: without such a ratio the
        # smallest n says nothing. Above 0.9 alike the windows hold nearly equal values, and other poolings do that too.
        if not window or ratio.max() > 1 + 1e-6 or ratio.min() > 1.2 / window or (ratio > 0.999).mean() > 0.9:
            continue
        return build_cause(
            "pooling",
            "average",
            evidence=f"each of the {int(positive.sum())} non-zero values of {first.name} is {ratio.min():.4g} to "
            f"{ratio.max():.4g} "
            f"times the {largest}'s: at least 1/{window} of it, as the mean of {window} values is of the largest",
            averaging=averaging,
            largest=largest,
        )
    return None


def dropout_active(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's values are the reference's or zero, all scaled by one factor: dropout is active on one side."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for one, other, whose in ((*found, "candidate"), (found[1], found[0], "reference")):
        # Zero where the other is not, and both not zero: only those two tell a rate. Dropout scales by 1/p and never
        # adds.
        dropped = (other == 0.0) & (one != 0.0)
        kept = (other != 0.0) & (one != 0.0)
        # One dropped value and one kept one may have any reason.
        if dropped.sum() < 2 or kept.sum() < 2:
            continue
        factor = common_factor([(one[kept], other[kept])])
        if factor is None or not factor > LEAST_DROPPED or not as_dropout_keeps(kept, dropped, 1 / factor):
            continue
        return build_cause(
            "dropout_active",
            "output",
            evidence=f"of {int(dropped.sum() + kept.sum())} non-zero values of {first.name}, {int(dropped.sum())} "
            "are zero in the "
            f"{whose}, and the others are {factor:.6g} times the other side's",
            whose=whose,
            kept=1 / factor,
        )
    return None


def dropout_before_pooling(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Dropout in front of a pooling layer: where the largest value was kept it is scaled up, elsewhere a lesser one is."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for one, other, whose in ((*found, "candidate"), (found[1], found[0], "reference")):
        positive = one > 0
        # Behind a max pool of values that are not negative: where its largest is 0 all of the window is, dropped or
        # not.
        if (one < 0).any() or (other < 0).any() or positive.sum() < 50 or (other[~positive] != 0).any():
            continue
        ratio = other[positive] / one[positive]
        # The largest of any ratio: where a window kept its largest value it is scaled by 1/p, and where it did not it
        # is less.
        factor = float(ratio.max())
        kept, lesser = float((ratio > factor * (1 - 2e-3)).mean()), float((ratio < factor * 0.99).mean())
        # A share and a rest: without the rest it is a factor of everything.
        if factor <= 1.01 or kept < LEAST_SHARE_KEPT or lesser < 0.02:
            continue
        # Binomial over half as many windows: neighbours share values, so that fewer of them are independent.
        if not likely_share(kept, 1 / factor, int(positive.sum()) // 2):  # neighbouring windows share what is largest
            continue
        return build_cause(
            "dropout_active",
            "before pooling",
            evidence=f"{kept:.0%} of the {int(positive.sum())} non-zero values of {first.name} are {factor:.6g} "
            "times the other "
            "side's, none is more, and the rest is less: there the largest value of the window was dropped",
            whose=whose,
            kept=1 / factor,
        )
    return None


def response_normalisation(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Local response normalisation by other numbers: the ratio of the sides follows the squares of the channels around."""
    pair = outputs(first, evidence)
    if pair is None or pair[0].ndim != 4 or (pair[0] < 0).any():
        return None
    one, other = pair
    # x / (k + a s)^b is 0 where x is, whatever stands below.
    seen = (one > 0) & (other > 0)
    if seen.sum() < 50 or (seen != (one > 0)).any():
        return None
    if norm(other[~seen]) >= LEFT * norm(other[seen] - one[seen]):
        return None  # it leaves zeros what they are
    # ln(other / one) = b ln(k + a s) - b' ln(k' + a' s'), s the sum of squares around a channel: to first order linear
    # in s, and in both s where the windows differ. 2 r + 1 channels is what a radius r covers.
    logarithms = np.log(other[seen] / one[seen])
    sums = {radius: _squares_around(one, radius)[seen] for radius in RADII if radius < one.shape[-1]}
    for radius, around in sums.items():
        found = fit([[around]], [logarithms])
        if found is not None and found.residual <= SECOND_ORDER:
            what = f"alpha times beta is off by {-found.coefficients[0]:.4g}"
            return _lrn(first, what, f"over {2 * radius + 1} channels", found.residual)
    for wanted, got in permutations(sums, 2):
        found = fit([[sums[wanted], sums[got]]], [logarithms])
        # Shares of opposite sign: less of one window and more of the other, which one window could not explain.
        if found is not None and found.residual <= SECOND_ORDER and found.coefficients[0] > 0 > found.coefficients[1]:
            what = f"it goes over {2 * got + 1} channels where the reference goes over {2 * wanted + 1}"
            return _lrn(first, what, f"over {2 * wanted + 1} and {2 * got + 1} channels", found.residual)
    return None


def rows_without_gradient(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Some rows of a table get no gradient, all others the right one: padding_idx, or a mask."""
    if first.quantity not in ("tower_grad", "grad"):
        return None
    for name, one, other in evidence.pairs(first.check.step, first.quantity, "", first.tower):
        if name != first.name or one.ndim != 2:
            continue
        silent = np.flatnonzero(one.any(axis=1) & ~other.any(axis=1))
        rest = np.setdiff1d(np.arange(len(one)), silent)
        # The rows that have a gradient must be the same ones: else the loss is another one too.
        if not len(silent) or not other.any() or norm(other[rest] - one[rest]) > CLOSE * norm(one):
            return None
        shown = ", ".join(map(str, silent[:8])) + (", ..." if len(silent) > 8 else "")
        return build_cause(
            "rows_without_gradient",
            evidence=f"{len(silent)} of its {len(one)} rows have the gradient zero in the candidate alone; the "
            "others are the same",
            rows=shown,
            name=name,
        )
    return None


def trained_twice(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Both terms of a sum train, such as torch's two biases of an LSTM: their sum moves twice as far."""
    if first.quantity not in ("clip", "slot", "var"):
        return None
    step = first.check.step
    file = evidence.candidate.step(step)
    # The sum has to go elsewhere: of terms that both have a gradient the optimizer may have one alone.
    # Where two parameters stand for one variable, and each moves by the gradient of their sum, it moves twice as far.
    names = [
        name
        for name, one, other in evidence.pairs(step, "var")
        if evidence.join.is_sum(name) and norm(other - one) > CLOSE * norm(one)
    ]
    twice = [
        name
        for name in names
        if len(evidence.join.parts(name)) > 1
        and all(key_of("grad", part) in file for part in evidence.join.parts(name))
    ]
    if not twice:
        return None
    parts = " and ".join(evidence.join.parts(twice[0]))
    return build_cause(
        "trained_twice",
        evidence=f"both have a gradient in the candidate, the same one; their sum, {twice[0]}, moves as far as "
        "both together, and a "
        "global norm counts it twice",
        parts=parts,
        last=evidence.join.parts(twice[0])[-1],
    )


def _lrn(first: FirstDifference, what: str, where: str, left: float) -> Cause:
    return build_cause(
        "response_normalisation",
        evidence=f"the logarithm of what the candidate's {first.name} is of the reference's is proportional to "
        "the sum of squares "
        f"{where}, to {left:.1g}",
        what=what,
    )


def _squares_around(values: Array, radius: int) -> Array:
    padded = np.pad(values**2, [(0, 0)] * 3 + [(radius, radius)])
    return np.asarray(sum(padded[..., shift : shift + values.shape[-1]] for shift in range(2 * radius + 1)))
