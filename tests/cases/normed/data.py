"""Normally distributed images of one pixel and targets."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: images ``[batch_size, 1, 1, 3]`` and targets ``[batch_size, 2]``, float32."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        shapes = {"images": (batch_size, 1, 1, 3), "targets": (batch_size, 2)}
        yield {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
