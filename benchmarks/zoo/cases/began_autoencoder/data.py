"""Face-like pictures, an oval with two eyes, as pixels from 0 to 255, and the generator's draws."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        pictures = np.empty((batch_size, 16, 16, 3))
        for n in range(batch_size):
            top, left = rng.uniform(6.5, 8.5, size=2)
            high, wide = rng.uniform(5, 7), rng.uniform(4, 6)
            face = ((y - top) / high) ** 2 + ((x - left) / wide) ** 2 < 1
            eyes = (abs(y - top + 2) < 1) & (abs(abs(x - left) - 2) < 1)
            pictures[n] = rng.uniform(0, 120, size=3)
            pictures[n][face] = rng.uniform(120, 255, size=3)
            pictures[n][eyes] = rng.uniform(0, 60, size=3)
        pictures += 8 * rng.standard_normal(pictures.shape)
        yield {
            "pixels": np.clip(np.round(pictures), 0, 255).astype("float32"),
            "z": rng.uniform(-1, 1, size=(batch_size, 8)).astype("float32"),
        }
