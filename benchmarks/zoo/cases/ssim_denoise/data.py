"""Smooth colour patches in [0, 1] and the same with Gaussian noise of sigma 25 / 255."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:18, 0:22] / 20.0
    for _ in range(steps):
        shape = (batch_size, 1, 1, 3)
        frequency = rng.uniform(0.5, 4.0, size=(2,) + shape)
        phase = rng.uniform(0.0, 6.28, size=shape)
        clean = 0.5 + 0.4 * np.sin(frequency[0] * x[..., None] * 3 + frequency[1] * y[..., None] * 3 + phase)
        noisy = clean + 25.0 / 255.0 * rng.standard_normal(clean.shape)
        yield {"noisy": noisy.astype("float32"), "clean": clean.astype("float32")}
