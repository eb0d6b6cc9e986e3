"""Whether as many values were kept as dropout keeps: what is scaled up by 1 / p is kept with probability p."""

import numpy as np

from parity.judge.metrics import Array

SIGMAS = 4
FEWEST = 16  # whole maps or rows: of fewer any share is likely


def as_dropout_keeps(kept: Array, dropped: Array, probability: float) -> bool:
    """Returns whether the values kept are about as many as a probability says, of single values or of whole maps or rows.

    Args:
      kept: bool ``[examples, ..., channels]``.
      dropped: bool of the same shape; what was zero anyway is neither.
      probability: of a value to be kept.
    """
    inner = tuple(range(1, kept.ndim - 1))
    for axes in (tuple(range(1, kept.ndim)), inner) if inner else (tuple(range(1, kept.ndim)),):
        some, none = kept.any(axis=axes), dropped.any(axis=axes)
        if not (some & none).any():
            count = int((some | none).sum())
            return count >= FEWEST and likely_share(float(some.sum() / count), probability, count)
    count = int(kept.sum() + dropped.sum())
    return likely_share(float(kept.sum() / count), probability, count)


def likely_share(share: float, probability: float, count: int) -> bool:
    """Returns whether a share of independent draws lies within four standard deviations of their probability."""
    return abs(share - probability) <= SIGMAS * float(np.sqrt(probability * (1 - probability) / max(count, 1)))
