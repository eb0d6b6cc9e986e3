"""Small pictures of soft discs in 256 levels; uniform noise takes the levels to real numbers, all within [-0.5, 0.5)."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:8, 0:12].astype(float)
    for _ in range(steps):
        centre = rng.uniform([1, 1], [7, 11], size=(batch_size, 2))
        radius = rng.uniform(1.5, 4.0, size=(batch_size, 1, 1))
        distance = np.hypot(y - centre[:, 0, None, None], x - centre[:, 1, None, None])
        disc = 1 / (1 + np.exp(2 * (distance - radius)))
        colour = rng.uniform(60, 230, size=(batch_size, 1, 1, 3))
        levels = np.clip(np.floor(disc[..., None] * colour + rng.normal(15, 6, size=(batch_size, 8, 12, 3))), 0, 255)
        images = (levels + rng.random(levels.shape)) / 256 - 0.5
        yield {"images": images.astype("float32")}
