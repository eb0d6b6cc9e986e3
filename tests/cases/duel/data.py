"""Noise, and points near a line."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: noise ``[batch, 3]`` and points ``[batch, 2]``, float32."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        at = random.standard_normal(batch_size)
        points = np.stack([at, 2 * at], 1) + 0.1 * random.standard_normal((batch_size, 2))
        noise = random.standard_normal((batch_size, 3))
        yield {"noise": noise.astype("float32"), "points": points.astype("float32")}
