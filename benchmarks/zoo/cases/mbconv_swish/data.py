"""Tiny colour pictures: a blob whose place, size and colour depend on the class, under noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:20, 0:20] / 20.0
    for _ in range(steps):
        labels = rng.integers(0, 8, size=batch_size)
        angle = labels * np.pi / 4 + rng.normal(0, 0.2, size=batch_size)
        cx, cy = 0.5 + 0.3 * np.cos(angle), 0.5 + 0.3 * np.sin(angle)
        width = 0.08 + 0.015 * labels
        distance = (x - cx[:, None, None]) ** 2 + (y - cy[:, None, None]) ** 2
        blob = np.exp(-distance / (2 * width[:, None, None] ** 2))
        colour = np.stack([np.cos(angle), np.sin(angle), np.ones(batch_size)], axis=-1)
        images = 2 * blob[..., None] * colour[:, None, None, :] + 0.4 * rng.standard_normal((batch_size, 20, 20, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
