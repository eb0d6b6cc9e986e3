"""Pictures of 8 x 8 with 256 levels, scaled to [-1, 1]; bright and dark spots reach both ends of the range."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:8, 0:8] / 8.0
    for _ in range(steps):
        slope = rng.uniform(-1, 1, size=(batch_size, 2, 1, 1, 3))
        images = 0.8 * (slope[:, 0] * (x[..., None] - 0.5) + slope[:, 1] * (y[..., None] - 0.5))
        images = images + rng.uniform(-0.4, 0.4, size=(batch_size, 1, 1, 3))
        spots = rng.random((batch_size, 8, 8, 1))
        images = images + 3.0 * (spots > 0.92) - 3.0 * (spots < 0.08) + 0.1 * rng.standard_normal(images.shape)
        levels = np.clip(np.round(127.5 * images + 127.5), 0, 255)
        yield {"images": ((levels - 127.5) / 127.5).astype("float32")}
