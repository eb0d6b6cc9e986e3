"""Pictures of 16x16 with one bright blob in one of nine places."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        labels = rng.integers(0, 9, size=batch_size)
        cy, cx = 3 + 5 * (labels // 3), 3 + 5 * (labels % 3)
        blob = np.exp(-((y - cy[:, None, None]) ** 2 + (x - cx[:, None, None]) ** 2) / 6.0)
        images = 2 * blob[..., None] * rng.uniform(0.3, 1, (batch_size, 1, 1, 3)) + 0.3 * rng.standard_normal((batch_size, 16, 16, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
