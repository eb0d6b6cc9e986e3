"""Colour patches of 16x16 made of a few soft blobs and edges, 0 to 255, with their 2x2 means as the low resolution."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 16.0
    for _ in range(steps):
        centre = rng.uniform(0, 1, (batch_size, 3, 2, 1, 1))
        width = rng.uniform(0.08, 0.4, (batch_size, 3, 1, 1))
        colour = rng.uniform(-0.5, 0.5, (batch_size, 3, 1, 1, 3))
        blobs = np.exp(-((x - centre[:, :, 0]) ** 2 + (y - centre[:, :, 1]) ** 2) / width ** 2)
        slope = rng.uniform(-1, 1, (batch_size, 2, 1, 1))
        edge = (slope[:, 0] * (x - 0.5) + slope[:, 1] * (y - 0.4) > 0)[..., None] * rng.uniform(0, 0.4, (batch_size, 1, 1, 3))
        high = 0.4 + (blobs[..., None] * colour).sum(1) + edge + 0.03 * rng.standard_normal((batch_size, 16, 16, 3))
        high = np.clip(high, 0.0, 1.0) * 255.0
        low = high.reshape(batch_size, 8, 2, 8, 2, 3).mean((2, 4))
        yield {"lr": low.astype("float32"), "hr": high.astype("float32")}
