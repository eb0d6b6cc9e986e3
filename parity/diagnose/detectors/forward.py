"""Causes in the forward pass, seen in the first layer whose output differs: activation functions, bias, normalisation."""

from collections.abc import Iterator

import numpy as np

from parity.diagnose.agreement import CLOSE, alike, common_factor, explained, rounds_to_one, told_factor
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.diagnose.fitting import BITS, narrow_format
from parity.diagnose.ops.activations import FUNCTIONS, INVERSES
from parity.judge.metrics import norm
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array

LEAKING = 0.5  # of the zeros of a ReLU are negative on the other side: a few can be anything


def rectifier(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The two differ only where the reference is zero, and there the candidate is negative: a leaky or missing ReLU."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for one, other, leaking, whose in (
        (*found, "candidate", "reference"),
        (found[1], found[0], "reference", "candidate"),
    ):
        # float64 arrays of one layer, [examples, ..., channels]; `one` is the side that may rectify, in either role.
        zero = one == 0.0
        # A ReLU's output has zeros, no negative value, and the other side is nowhere above 0 where it is 0: max(x, 0)
        # loses exactly that.
        if not zero.any() or zero.all() or (one < 0).any() or (other[zero] > 0).any():
            continue
        if (other[zero] < 0).mean() < LEAKING:
            continue
        # What the sides share has to be the same: with another input the positive values would differ too.
        left = other[~zero] - one[~zero]
        if norm(left) <= CLOSE * norm(one) and explained(left, other[zero], one):
            return build_cause(
                "rectifier",
                evidence=f"{first.name} is the same wherever it is positive; of {int(zero.sum())} values that are "
                f"0 in the {whose}, "
                f"{int((other[zero] < 0).sum())} are negative in the {leaking}",
                leaking=leaking,
                whose=whose,
            )
    return None


def reduced_precision(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Every value of one side fits a narrower float than it is stored in: it went through one."""
    step = first.check.step
    pairs = [
        (one, other)
        for tower in evidence.tower_names(step, first.quantity) or [""]
        for name, one, other in evidence.pairs(step, first.quantity, "", tower)
        if name == first.name
    ]
    if first.quantity not in ("act", "tower_grad", "grad", "var") or not pairs:
        return None
    # Of all towers together: a narrow format shows in every value, and a small tower has few.
    one, other = (np.concatenate([pair[side].reshape(-1) for pair in pairs]) for side in (0, 1))
    for values, whose, others in ((other, "candidate", one), (one, "reference", other)):
        name = narrow_format(values, others)
        # Rounding moves a value by up to half a unit of its last bit, and not by much less: the state itself fits
        # float32.
        if not name:
            continue
        # Half a unit of the last bit is 2^-bits of a value of that size; 1/32 to 8 of it allows for values of several
        # sizes and for a sum of a few roundings. The same format without any rounding is the state, which both sides
        # share.
        unit = 2.0 ** -BITS[name] * norm(one)
        if not unit / 32 <= norm(one - other) <= 8 * unit:
            continue
        return build_cause(
            "reduced_precision",
            "tensor",
            evidence=f"all {values.size} values of {first.check.key} fit {name} exactly in the {whose}'s float64 "
            "run, and not in the "
            f"other's; they are {norm(one - other) / norm(one):.2g} apart",
            tensor=first.name,
            name=name,
            whose=whose,
        )
    return None


def activation_function(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side applies another function to the same values."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for share, how in ((1e-7, "all"), (2e-2, "98% of what differs among")):
        for (one, other), who in ((found, "candidate"), (found[::-1], "reference")):
            for name, function, count in _functions(one, other, share):
                return build_cause(
                    "activation_function",
                    "output",
                    evidence=f"{function} of what {name} was applied to gives {how} {count} values that can be told",
                    tensor=first.name,
                    function=function,
                    who=who,
                    name=name,
                )
    return None


def _functions(one: Array, other: Array, share: float) -> Iterator[tuple[str, str, int]]:
    for name, inverse in INVERSES.items():
        # What went into the function on the side that has `name`: only invertible functions, and only where they
        # invert.
        x = inverse(one)
        known = np.isfinite(x)
        # 8 values and a spread: fewer values fit several functions, and a constant fits all of them.
        if (
            (other[known] != one[known]).sum() < 8
            or not np.ptp(x[known])
            or alike([other[known]])  # saturated: many functions are flat there
            or norm(other[known] - one[known]) <= CLOSE * norm(one[known])
        ):
            continue
        # Of what differs, and of how far what is to be explained varies: zeros are near to all that is small beside `one`.
        apart = min(norm(other[known] - one[known]), norm(other[known] - other[known].mean()))
        for function, apply in FUNCTIONS.items():
            # A function of the same values, so that nothing but the function can differ: relative to what differs, not
            # to the values, since near 0 the functions are alike.
            if function != name and norm(apply(x[known]) - other[known]) <= share * apart:
                yield name, function, int(known.sum())


def bias_missing(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The difference is a bias: one value per channel, proportional to a variable of that length."""
    found = outputs(first, evidence)
    if found is None or found[0].ndim < 2:
        return None
    one, other = (each.reshape(-1, each.shape[-1]) for each in found)
    # Where a ReLU follows, the values that are positive on both sides still carry the shift of their channel.
    seen = (one > 0) & (other > 0) if (one >= 0).all() else np.ones(one.shape, bool)
    # Two values show that the shift of a channel is one number; three channels, that the shifts follow a bias.
    channels = np.flatnonzero(seen.sum(axis=0) >= 2)
    if len(channels) < 3:
        return None
    apart = [(other - one)[seen[:, channel], channel] for channel in channels]
    shift = np.array([part.mean() for part in apart])
    # What is not a shift per channel: another slope would leave the channel's spread here.
    left = np.concatenate([part - mean for part, mean in zip(apart, shift, strict=True)])
    if float(np.abs(left).max()) > CLOSE * norm(one) or not explained(left, np.concatenate(apart), one):
        return None
    if float(np.abs(shift).max()) <= CLOSE * float(np.abs(one).max()):
        return None  # the same wherever it can be told: a factor of 0 fits any bias
    step = first.check.step
    for name in evidence.reference.variables:
        bias = evidence.before(step, "var", name)
        # Of a bias that is one number in all channels any shift is a multiple.
        if bias is None or bias.shape != one.shape[1:] or alike([bias[channels]]):
            continue
        # The candidate has (1 + f) b where the reference has b: f is -1 where it adds none, and 0 is no difference.
        factor = common_factor([(bias[channels], shift)])
        if factor is None or rounds_to_one(1 + factor):
            continue
        what = "is not added" if abs(factor + 1) <= 1e-6 else f"counts {1 + factor:.6g} times"
        return build_cause(
            "bias_missing",
            "layer",
            evidence=f"in every example {first.name} is off by {factor:.6g} times {name}, channel by channel",
            name=name,
            what=what,
        )
    return None


def activation_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """A layer's output is off by one factor."""
    found = outputs(first, evidence)
    factor = told_factor([found]) if found else None
    # Zeros are no multiple of anything: they were masked, or never computed.
    if found is None or factor is None or not found[1].any():
        return None
    return build_cause(
        "activation_factor",
        evidence=f"every value of it is {factor:.9g} times the reference's, to the last digits",
        tensor=first.name,
        factor=factor,
    )


def outputs(first: FirstDifference, evidence: Evidence) -> tuple[Array, Array] | None:
    """Returns the first layer that differs, reference and candidate; None where it is no layer, or not finite."""
    if first.quantity != "act":
        return None
    step = first.check.step
    # Of this tower: a layer of another tower has other examples.
    for name, one, other in evidence.pairs(step, "act", "", first.tower):
        if name == first.name:
            return one, other
    return None


# Causes in batch norm's forward pass: each channel is scaled and shifted by its own numbers.

# Of what a channel is scaled by, beside 1: how far its shift may be off. y - beta = s (x - beta) gives a shift of (1 -
# s) beta exactly; chosen a hundred times below a thousandth of the difference, and above the rounding of a line fitted
# to a channel.
SHIFT_OVER_SCALE = 1e-5


def normalisation(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The channels are scaled and shifted, each by its own: batch norm by other statistics or another epsilon."""
    kinds = {entry.get("kind") for entry in evidence.reference.variables.values()}
    found = outputs(first, evidence)
    if found is None or "statistic" not in kinds or found[0].ndim < 2:
        return None
    # scales, shifts: (channels,), NaN where they cannot be told; whole: norm of what they leave, over what differs.
    scales, shifts, whole = _fits(*found)
    if not np.isfinite(scales).any() or whole > 1e-7:
        # 1e-7 of the difference: nothing but an affine map per channel explains it, to the digits that a norm keeps.
        return None
    lowest, highest = float(np.nanmin(scales)), float(np.nanmax(scales))
    gamma = _inverse_of(scales, first, evidence)
    if gamma:
        return build_cause(
            "gamma_missing",
            evidence=f"every channel of {first.name} is the reference's divided by {gamma}, and shifted, to {whole:.1g} of "
            "what differs",
            gamma=gamma,
        )
    moved = _moved(first, evidence, found[0].shape[-1])
    if moved is None:
        return None  # what goes into the norm differs already
    if moved and not _about_beta(scales, shifts, first, evidence):
        return None
    # Where both sides' statistics move alike the batch's are the same, and it is the epsilon; where the candidate's
    # stay, it is evaluation mode.
    hint = "another epsilon" if moved else "the moving statistics, as in evaluation"
    return build_cause(
        "normalisation",
        evidence=f"every channel of the candidate is the reference's, scaled by {lowest:.6g} to {highest:.6g} and "
        "shifted, to "
        f"{whole:.1g} of what differs",
        tensor=first.name,
        hint=hint,
    )


def left_by_channels(one: Array, other: Array) -> float:
    """Returns what a scale and a shift of each channel leave of the difference; infinite where no channel tells them."""
    return _fits(one, other)[2]


def _fits(one: Array, other: Array) -> tuple[Array, Array, float]:
    """Each channel's scale and shift, NaN where they cannot be told, and what they leave of the difference."""
    # Where a ReLU follows, values that are positive on both sides still show the scale and shift of the channel.
    one, other = one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1])
    seen = (one > 0) & (other > 0) if (one >= 0).all() else np.ones(one.shape, bool)
    fitted, left, total = np.full((2, one.shape[1]), np.nan), 0.0, 0.0
    for channel in range(one.shape[1]):
        rows = seen[:, channel]
        # At least 4 of them, not all one number: a line through fewer fits anything, and through a constant has no
        # slope.
        x, y = one[rows, channel], other[rows, channel]
        # Of numbers that are not finite, or whose squares are not, numpy's decomposition does not converge.
        if len(x) < 4 or not np.isfinite(x @ x + y @ y) or np.ptp(x) <= CLOSE * np.abs(x).max():
            continue
        scale, shift = fitted[:, channel] = np.polyfit(x, y, 1)
        # The same units squared over all channels: what is left beside what there was to explain.
        left, total = left + float(np.sum((y - scale * x - shift) ** 2)), total + float(np.sum((y - x) ** 2))
    return fitted[0], fitted[1], float(np.sqrt(left / total)) if total > 0.0 else np.inf


def _about_beta(scales: Array, shifts: Array, first: FirstDifference, evidence: Evidence) -> bool:
    """Whether each channel is scaled about what is added behind it, which no epsilon touches."""
    told = np.isfinite(scales)
    apart = scales[told] - 1.0
    # (1 - s) beta = shift: the part of the norm behind the root is unchanged, so that beta stays where it is and all
    # else is scaled about it. Another epsilon does that; another input does not.
    largest = float(np.abs(apart).max())
    values = (evidence.before(first.check.step, "var", name) for name in evidence.reference.variables)
    # Zeros first: without a beta (scale=False, center=False) the shift is 0.
    betas = [np.zeros(scales.shape), *(each for each in values if each is not None and each.shape == scales.shape)]
    left = (np.abs(shifts[told] + apart * beta[told]).max() for beta in betas)
    return largest > CLOSE and any(each <= SHIFT_OVER_SCALE * largest for each in left)


def _inverse_of(scales: Array, first: FirstDifference, evidence: Evidence) -> str:
    told = np.isfinite(scales)
    for name in evidence.reference.variables:
        value = evidence.before(first.check.step, "var", name)
        if value is None or value.shape != scales.shape or told.sum() < 3 or np.ptp(value[told]) == 0.0:
            continue
        # s = 1 / gamma: the candidate gives the normed values themselves, that is, gamma was not applied.
        if np.abs(scales[told] * value[told] - 1).max() <= 1e-6:
            return name
    return ""


def _moved(first: FirstDifference, evidence: Evidence, channels: int) -> bool | None:
    # Another epsilon leaves the batch's statistics as they are; evaluation mode leaves the moving ones where they were;
    # another input moves them elsewhere.
    step = first.check.step
    alike, still = 0, 0
    for name, one, other in evidence.pairs(step, "stat"):
        before = evidence.before(step, "stat", name)
        if before is not None and one.shape == (channels,):
            # To 1e-12 of a statistic: it is made of the same inputs in float64, and a moved one is off by far more.
            alike += norm(other - one) <= 1e-12 * norm(one)
            still += norm(other - before) <= 1e-12 * norm(before)
    return True if alike else False if still else None
