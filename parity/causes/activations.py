"""Causes in the forward pass, seen in the first layer whose output differs."""

from collections.abc import Iterator

import numpy as np

from parity.causes.evidence import CLOSE, Evidence, common_factor
from parity.causes.functions import FUNCTIONS, INVERSES
from parity.judge.numbers import Array, norm
from parity.judge.result import Cause, FirstDifference

BORDER = 3


def rectifier(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The two differ only where the reference is zero, and there the candidate is negative: a leaky or missing ReLU."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for one, other, leaking, whose in (
        (*found, "candidate", "reference"),
        (found[1], found[0], "reference", "candidate"),
    ):
        zero = one == 0.0
        if not zero.any() or zero.all() or (one < 0).any() or (other[zero] > 0).any() or not (other[zero] < 0).any():
            continue
        if norm(other[~zero] - one[~zero]) <= CLOSE * norm(one[~zero]):
            return Cause(
                "rectifier",
                f"the {leaking} lets negative values through where the {whose} has a ReLU",
                f"{first.name} is the same wherever it is positive; of {int(zero.sum())} values that are 0 in the {whose}, "
                f"{int((other[zero] < 0).sum())} are negative in the {leaking}",
                "use the activation of the graph: a plain ReLU on both sides, or the same negative slope",
            )
    return None


def dropout_active(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The candidate's values are the reference's or zero, all scaled by one factor: dropout is active on one side."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for one, other, whose in ((*found, "candidate"), (found[1], found[0], "reference")):
        dropped = (other == 0.0) & (one != 0.0)
        kept = (other != 0.0) & (one != 0.0)
        if dropped.sum() < 2 or kept.sum() < 2:
            continue
        factor = common_factor([(one[kept], other[kept])])
        if factor is None or not factor > 1.0:
            continue
        return Cause(
            "dropout_active",
            f"dropout is active in the {whose} only, keeping {1 / factor:.3g}",
            f"of {int(dropped.sum() + kept.sum())} non-zero values of {first.name}, {int(dropped.sum())} are zero in the "
            f"{whose}, and the others are {factor:.6g} times the other side's",
            "switch it off on both sides, or record the masks and replay them",
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
    one, other = (np.concatenate([pair[side].reshape(-1) for pair in pairs]) for side in (0, 1))
    for values, whose, others in ((other, "candidate", one), (one, "reference", other)):
        name = next((name for name, bits in NARROW.items() if _fits(values, bits) and not _fits(others, bits)), None)
        # Rounding moves a value by no more than half a unit of its last bit; the state itself fits float32.
        if name is None or norm(one - other) > 8 * 2.0 ** -NARROW[name] * norm(one) or not values.any():
            continue
        return Cause(
            "reduced_precision",
            f"{first.name} goes through {name} in the {whose}",
            f"all {values.size} values of {first.check.key} fit {name} exactly in the {whose}'s float64 run, and not in the "
            f"other's; they are {norm(one - other) / norm(one):.2g} apart",
            "look for half(), bfloat16(), autocast or a cast before communication; levels 1 and 2 need full precision",
        )
    return None


def activation_function(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side applies another function to the same values."""
    found = outputs(first, evidence)
    if found is None:
        return None
    for explained, how in ((1e-7, "all"), (2e-2, "98% of what differs among")):
        for (one, other), who in ((found, "candidate"), (found[::-1], "reference")):
            for name, function, count in _functions(one, other, explained):
                return Cause(
                    "activation_function",
                    f"{first.name} goes through {function} in the {who}, through {name} on the other side",
                    f"{function} of what {name} was applied to gives {how} {count} values that can be told",
                    "use the activation of the graph on both sides",
                )
    return None


def _functions(one: Array, other: Array, explained: float) -> Iterator[tuple[str, str, int]]:
    for name, inverse in INVERSES.items():
        x = inverse(one)
        known = np.isfinite(x)
        if known.sum() < 8 or not np.ptp(x[known]) or norm(other[known] - one[known]) <= CLOSE * norm(one[known]):
            continue
        apart = norm(other[known] - one[known])
        for function, apply in FUNCTIONS.items():
            if function != name and norm(apply(x[known]) - other[known]) <= explained * apart:
                yield name, function, int(known.sum())


def bias_missing(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The difference is a bias: one value per channel, proportional to a variable of that length."""
    found = outputs(first, evidence)
    if found is None or found[0].ndim < 2:
        return None
    one, other = (each.reshape(-1, each.shape[-1]) for each in found)
    seen = (one > 0) & (other > 0) if (one >= 0).all() else np.ones(one.shape, bool)
    channels = np.flatnonzero(seen.sum(axis=0) >= 2)
    if len(channels) < 3:
        return None
    apart = [(other - one)[seen[:, channel], channel] for channel in channels]
    shift = np.array([part.mean() for part in apart])
    if max(float(np.abs(part - mean).max()) for part, mean in zip(apart, shift, strict=True)) > CLOSE * norm(one):
        return None
    if float(np.abs(shift).max()) <= CLOSE * norm(one):
        return None  # the same wherever it can be told: a factor of 0 fits any bias
    step = first.check.step
    for name in evidence.reference.variables:
        bias = evidence.before(step, "var", name)
        if bias is None or bias.shape != one.shape[1:] or not bias.any():
            continue
        factor = common_factor([(bias[channels], shift)])
        if factor is None:
            continue
        what = "is not added" if abs(factor + 1) <= 1e-6 else f"counts {1 + factor:.6g} times"
        return Cause(
            "bias_missing",
            f"the bias {name} {what} in the candidate",
            f"in every example {first.name} is off by {factor:.6g} times {name}, channel by channel",
            "give the layer its bias once",
        )
    return None


def normalisation(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The channels are scaled and shifted, each by its own: batch norm by other statistics or another epsilon."""
    kinds = {entry.get("kind") for entry in evidence.reference.variables.values()}
    found = outputs(first, evidence)
    if found is None or "statistic" not in kinds or found[0].ndim < 2:
        return None
    scales, whole = _affine(*found)
    if scales is None or whole > 1e-7:
        return None
    lowest, highest = float(np.nanmin(scales)), float(np.nanmax(scales))
    gamma = _inverse_of(scales, first, evidence)
    if gamma:
        return Cause(
            "gamma_missing",
            f"the candidate's batch norm does not multiply by {gamma}",
            f"every channel of {first.name} is the reference's divided by {gamma}, and shifted, to {whole:.1g} of "
            "what differs",
            "normalise with affine=True, or scale=True, as the graph does",
        )
    moved = _moved(first, evidence, found[0].shape[-1])
    if moved is None:
        return None  # what goes into the norm differs already
    hint = "another epsilon" if moved else "the moving statistics, as in evaluation"
    return Cause(
        "normalisation",
        f"batch norm normalises {first.name} by {hint}",
        f"every channel of the candidate is the reference's, scaled by {lowest:.6g} to {highest:.6g} and shifted, to "
        f"{whole:.1g} of what differs",
        "epsilon as in the graph (tf.layers 1e-3, torch 1e-5); training mode on both sides; the statistics of one shard",
    )


def _inverse_of(scales: Array, first: FirstDifference, evidence: Evidence) -> str:
    told = np.isfinite(scales)
    for name in evidence.reference.variables:
        value = evidence.before(first.check.step, "var", name)
        if value is None or value.shape != scales.shape or told.sum() < 3 or np.ptp(value[told]) == 0.0:
            continue
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
            alike += norm(other - one) <= 1e-12 * norm(one)
            still += norm(other - before) <= 1e-12 * norm(before)
    return True if alike else False if still else None


def _border(first: FirstDifference, found: tuple[Array, Array]) -> Cause | None:
    one, other = found
    if one.ndim != 4 or min(one.shape[1:3]) <= 2 * BORDER + 1:
        return None
    inner = (slice(None), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    scales, inside = _affine(one[inner], other[inner])
    same = norm(one[inner] - other[inner]) <= CLOSE * norm(one[inner])
    if not same and (scales is None or inside > 1e-7):
        return None
    return Cause(
        "border",
        f"{first.name} differs at the border of the image",
        f"{BORDER} pixels from the border on, the channels are the same"
        + ("" if same else " up to the scale and shift that batch norm gives them")
        + "; at the border they are not",
        "pad as SAME does: with zeros, the odd one at the end (torch_ddp.like_tf.Conv2dSame, MaxPool2dSame)",
    )


def border(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Only the border of the images differs: padding."""
    found = outputs(first, evidence)
    if found is None or found[0].ndim != 4 or _affine(*found)[1] <= 1e-7:
        return None
    return _border(first, found)


def activation_factor(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """A layer's output is off by one factor."""
    found = outputs(first, evidence)
    factor = common_factor([found]) if found else None
    if factor is None:
        return None
    return Cause(
        "activation_factor",
        f"{first.name} is off by the factor {factor:.6g}",
        f"every value of it is {factor:.9g} times the reference's, to the last digits",
        "look for a scale of the input (1/255, standardisation) or of this layer",
    )


NARROW = {"bfloat16": 8, "float16": 11, "float32": 24}


def _fits(values: Array, bits: int) -> bool:
    mantissa, _ = np.frexp(values)
    return bool((np.ldexp(mantissa, bits) % 1 == 0).all())


def _affine(one: Array, other: Array) -> tuple[Array | None, float]:
    # Where a ReLU follows, values that are positive on both sides still show the scale and shift of the channel.
    one, other = one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1])
    seen = (one > 0) & (other > 0) if (one >= 0).all() else np.ones(one.shape, bool)
    scales, left, total = [], 0.0, 0.0
    for channel in range(one.shape[1]):
        rows = seen[:, channel]
        x, y = one[rows, channel], other[rows, channel]
        if len(x) < 4 or np.ptp(x) <= CLOSE * np.abs(x).max():
            scales.append(np.nan)
            continue
        scale, shift = np.polyfit(x, y, 1)
        scales.append(scale)
        left, total = left + float(np.sum((y - scale * x - shift) ** 2)), total + float(np.sum((y - x) ** 2))
    if not np.isfinite(scales).any() or not total > 0.0:
        return None, np.inf
    return np.array(scales), float(np.sqrt(left / total))


def outputs(first: FirstDifference, evidence: Evidence) -> tuple[Array, Array] | None:
    """Returns the first layer that differs, reference and candidate, where it is finite; else None."""
    if first.quantity != "act":
        return None
    step = first.check.step
    for name, one, other in evidence.pairs(step, "act", "", first.tower):
        if name == first.name and one.size and np.isfinite(one).all() and np.isfinite(other).all():
            return one, other
    return None
