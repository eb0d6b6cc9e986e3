"""Small colour pictures: rings, crosses and gradients under noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:12j, -1:1:12j]
    shapes = np.stack([np.cos(6 * np.hypot(x, y)), np.exp(-8 * np.minimum(abs(x), abs(y))), x, y, x * y, np.sign(x)])
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        tint = rng.uniform(0.4, 1.2, size=(batch_size, 1, 1, 3))
        images = shapes[labels][..., None] * tint + 0.4 * rng.standard_normal((batch_size, 12, 12, 3))
        yield {"x": images.astype("float32"), "label": np.eye(6, dtype="float32")[labels]}
