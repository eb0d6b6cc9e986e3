"""Tiny colour pictures: an oriented grating per class under noise, already standardised."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 16.0
    for _ in range(steps):
        labels = rng.integers(0, 10, size=batch_size)
        angle = labels[:, None, None] * np.pi / 10
        wave = np.sin(2 * np.pi * 2 * (x * np.cos(angle) + y * np.sin(angle)) + rng.uniform(0, 6, (batch_size, 1, 1)))
        tint = rng.uniform(0.3, 1.0, size=(batch_size, 1, 1, 3))
        images = wave[..., None] * tint + 0.5 * rng.standard_normal((batch_size, 16, 16, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
