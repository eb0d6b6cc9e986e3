"""Clips of a blob on a noisy background: the class says in which direction, and how fast, it moves."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:12, 0:12].astype("float64")
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        angle = labels * np.pi / 3
        start = rng.uniform(3, 9, size=(batch_size, 2))
        t = np.arange(6) - 2.5
        cy = start[:, 0, None] + np.sin(angle)[:, None] * t * (1 + labels[:, None] % 2)
        cx = start[:, 1, None] + np.cos(angle)[:, None] * t * (1 + labels[:, None] % 2)
        blob = np.exp(-((y - cy[..., None, None]) ** 2 + (x - cx[..., None, None]) ** 2) / 3.0)
        tint = rng.uniform(0.5, 1.5, size=(batch_size, 1, 1, 1, 3))
        clips = blob[..., None] * tint + 0.3 * rng.standard_normal((batch_size, 6, 12, 12, 3))
        yield {"clips": clips.astype("float32"), "labels": labels.astype("int32")}
