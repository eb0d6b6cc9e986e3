"""Small textures of six classes, and the draws of scheduled drop path: one for each cell and operation of an example."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:12, 0:12] / 12.0
    rate = 0.7 + 0.3 * (1 - np.arange(1, 4) / 3)
    for _ in range(steps):
        labels = rng.integers(0, 6, batch_size)
        frequency = (1 + labels % 3)[:, None, None]
        angle = (labels // 3 * 1.2 + 0.2)[:, None, None]
        wave = np.sin(2 * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)) + rng.uniform(0, 6, (batch_size, 1, 1)))
        images = wave[..., None] * rng.uniform(0.4, 1, (batch_size, 1, 1, 3)) + 0.4 * rng.standard_normal((batch_size, 12, 12, 3))
        keep = rng.random((batch_size, 3, 10)) < rate[None, :, None]
        yield {
            "images": images.astype("float32"),
            "labels": labels.astype("int32"),
            "keep": (keep / rate[None, :, None]).astype("float32"),
        }
