"""Points of a mixture of eight Gaussians; noise for the generator and the places between real and fake."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        angle = 2 * np.pi * rng.integers(0, 8, size=batch_size) / 8
        points = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.02 * rng.standard_normal((batch_size, 2))
        yield {
            "real_data": (points / 1.414).astype("float32"),
            "noise": rng.standard_normal((batch_size, 4)).astype("float32"),
            "alpha": rng.random((batch_size, 1)).astype("float32"),
        }
