"""Normally distributed features and targets."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: features and targets, float32 ``[batch_size, 4]``."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        yield {name: random.standard_normal((batch_size, 4)).astype("float32") for name in ("features", "targets")}
