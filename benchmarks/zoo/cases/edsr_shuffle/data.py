"""Smooth colour textures with edges, and the same pictures averaged down to half the size."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 16.0
    for _ in range(steps):
        angle, phase, edge = (rng.uniform(0, high, (batch_size, 1, 1, 1)) for high in (np.pi, 6.3, 1.0))
        along = x[None, :, :, None] * np.cos(angle) + y[None, :, :, None] * np.sin(angle)
        tint = rng.uniform(0.1, 0.4, size=(batch_size, 1, 1, 3))
        base = rng.uniform(0.3, 0.6, size=(batch_size, 1, 1, 3))
        high = base + tint * np.sin(12 * along + phase) + 0.2 * tint[..., ::-1] * (along > edge)
        high = np.clip(high + 0.03 * rng.standard_normal(high.shape), 0, 1)
        low = high.reshape(batch_size, 8, 2, 8, 2, 3).mean(axis=(2, 4))
        yield {"low": low.astype("float32"), "high": high.astype("float32")}
