"""Textures in [-1, 1] as slim's preprocessing gives them: every class has its own mixture of stripes and checks."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        labels = rng.integers(0, 8, size=batch_size)
        period = (2 + labels % 4)[:, None, None]
        phase = rng.integers(0, 5, size=(batch_size, 1, 1))
        stripes = np.sin(2 * np.pi * (x + phase) / period)
        checks = np.sign(np.sin(2 * np.pi * (x + phase) / period) * np.sin(2 * np.pi * y / period))
        base = np.where((labels < 4)[:, None, None], stripes, checks)[..., None] * rng.uniform(0.2, 0.7, (batch_size, 1, 1, 3))
        images = np.clip(base + 0.2 * rng.standard_normal((batch_size, 16, 16, 3)), -1, 1)
        yield {"images": images.astype("float32"), "labels": labels.astype("int64")}
