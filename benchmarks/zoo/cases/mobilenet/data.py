"""Tiny pictures of filled shapes in [-1, 1], one of eight classes by shape and brightness."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:18, 0:18]
    for _ in range(steps):
        labels = rng.integers(0, 8, size=batch_size)
        cy, cx = rng.uniform(5, 12, size=(2, batch_size, 1, 1))
        size = rng.uniform(3, 6, size=(batch_size, 1, 1))
        round_ = np.hypot(y - cy, x - cx) < size
        square = np.maximum(abs(y - cy), abs(x - cx)) < size
        shape = np.where((labels % 2 == 0)[:, None, None], round_, square)
        level = 0.25 + 0.25 * (labels // 2)[:, None, None]
        images = shape[..., None] * level[..., None] * rng.uniform(0.6, 1, (batch_size, 1, 1, 3))
        images = 2 * np.clip(images + 0.1 * rng.random((batch_size, 18, 18, 3)), 0, 1) - 1
        yield {"images": images.astype("float32"), "labels": labels.astype("int64")}
