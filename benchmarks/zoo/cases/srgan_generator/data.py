"""Smooth colour patterns in [-1, 1] at four times the size, and their block means as the small pictures in [0, 1]."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:24, 0:20] / 24.0
    for _ in range(steps):
        targets = np.zeros((batch_size, 24, 20, 3))
        for _ in range(4):
            frequency = rng.uniform(0.5, 4.0, size=(2, batch_size, 1, 1, 3))
            phase = rng.uniform(0, 6, size=(batch_size, 1, 1, 3))
            angle = 2 * np.pi * (frequency[0] * x[..., None] + frequency[1] * y[..., None]) + phase
            targets += rng.uniform(0.1, 0.4, size=(batch_size, 1, 1, 3)) * np.sin(angle)
        targets = np.clip(targets, -1, 1)
        small = targets.reshape(batch_size, 6, 4, 5, 4, 3).mean(axis=(2, 4))
        yield {"inputs": ((small + 1) / 2).astype("float32"), "targets": targets.astype("float32")}
