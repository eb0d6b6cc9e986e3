"""Causes in batch norm's forward pass: each channel is scaled and shifted by its own numbers."""

import numpy as np

from parity.causes.activations import outputs
from parity.causes.evidence import CLOSE, Evidence
from parity.judge.metrics import Array, norm
from parity.judge.result import Cause, FirstDifference

SAME = 1e-5  # of what a channel is scaled by, beside 1: how far its shift may be off


def normalisation(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The channels are scaled and shifted, each by its own: batch norm by other statistics or another epsilon."""
    kinds = {entry.get("kind") for entry in evidence.reference.variables.values()}
    found = outputs(first, evidence)
    if found is None or "statistic" not in kinds or found[0].ndim < 2:
        return None
    scales, shifts, whole = _fits(*found)
    if not np.isfinite(scales).any() or whole > 1e-7:
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
    if moved and not _about_beta(scales, shifts, first, evidence):
        return None
    hint = "another epsilon" if moved else "the moving statistics, as in evaluation"
    return Cause(
        "normalisation",
        f"batch norm normalises {first.name} by {hint}",
        f"every channel of the candidate is the reference's, scaled by {lowest:.6g} to {highest:.6g} and shifted, to "
        f"{whole:.1g} of what differs",
        "epsilon as in the graph (tf.layers 1e-3, torch 1e-5; below 1.001e-5 TensorFlow 1.15 raises a fused one, not 2: "
        "fused_epsilon_floor=0 of torch_ddp.like_tf's); training mode on both sides; the statistics of one shard",
    )


def affine(one: Array, other: Array) -> tuple[Array | None, float]:
    """Returns each channel's scale, NaN where it cannot be told, and what it leaves, with a shift, of the difference."""
    scales, _, left = _fits(one, other)
    return (scales, left) if np.isfinite(left) else (None, np.inf)


def _fits(one: Array, other: Array) -> tuple[Array, Array, float]:
    """Each channel's scale and shift, NaN where they cannot be told, and what they leave of the difference."""
    # Where a ReLU follows, values that are positive on both sides still show the scale and shift of the channel.
    one, other = one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1])
    seen = (one > 0) & (other > 0) if (one >= 0).all() else np.ones(one.shape, bool)
    fitted, left, total = np.full((2, one.shape[1]), np.nan), 0.0, 0.0
    for channel in range(one.shape[1]):
        rows = seen[:, channel]
        x, y = one[rows, channel], other[rows, channel]
        if len(x) < 4 or np.ptp(x) <= CLOSE * np.abs(x).max():
            continue
        scale, shift = fitted[:, channel] = np.polyfit(x, y, 1)
        left, total = left + float(np.sum((y - scale * x - shift) ** 2)), total + float(np.sum((y - x) ** 2))
    return fitted[0], fitted[1], float(np.sqrt(left / total)) if total > 0.0 else np.inf


def _about_beta(scales: Array, shifts: Array, first: FirstDifference, evidence: Evidence) -> bool:
    """Whether each channel is scaled about what is added behind it, which no epsilon touches."""
    told = np.isfinite(scales)
    apart = scales[told] - 1.0
    largest = float(np.abs(apart).max())
    values = (evidence.before(first.check.step, "var", name) for name in evidence.reference.variables)
    betas = [np.zeros(scales.shape), *(each for each in values if each is not None and each.shape == scales.shape)]
    left = (np.abs(shifts[told] + apart * beta[told]).max() for beta in betas)
    return largest > CLOSE and any(each <= SAME * largest for each in left)


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
