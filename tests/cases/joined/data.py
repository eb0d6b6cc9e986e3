"""Normally distributed features and targets, in batches that may get smaller."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: features ``[batch, 4]`` and targets ``[batch, 2]``, float32."""
    random = np.random.default_rng(seed)
    for step in range(steps):
        size = batch_size - (step % 3 if batch_size % 12 else 0)
        shapes = {"features": (size, 4), "targets": (size, 2)}
        yield {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
