"""Stripes and checks in [0, 1], with standard normal noise and a level of noise for each example."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:12, 0:12]
    for _ in range(steps):
        period = rng.integers(2, 6, size=(batch_size, 1, 1, 1))
        slope = rng.integers(0, 3, size=(batch_size, 1, 1, 1))
        stripes = ((x[None, :, :, None] + slope * y[None, :, :, None]) // period) % 2
        tint = rng.uniform(0.2, 1.0, size=(batch_size, 1, 1, 3))
        yield {
            "images": (stripes * tint).astype("float32"),
            "noise": rng.standard_normal((batch_size, 12, 12, 3)).astype("float32"),
            "levels": rng.integers(0, 6, size=batch_size).astype("int32"),
        }
