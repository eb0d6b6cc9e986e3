"""Small grey pictures of discs and bars in [-1, 1], and the generator's noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        cy, cx, r = rng.uniform(5, 11, (batch_size, 1, 1)), rng.uniform(5, 11, (batch_size, 1, 1)), rng.uniform(2, 5, (batch_size, 1, 1))
        disc = (y - cy) ** 2 + (x - cx) ** 2 < r ** 2
        bar = np.abs(y - cy) < r / 2
        ink = np.where(rng.random((batch_size, 1, 1)) < 0.5, disc, bar)
        images = np.clip(1.6 * ink - 0.8 + 0.1 * rng.standard_normal(ink.shape), -1, 1)[..., None]
        yield {"images": images.astype("float32"), "z": rng.uniform(-1, 1, (batch_size, 10)).astype("float32")}
