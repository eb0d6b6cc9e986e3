"""Small pictures of soft blobs on a dark ground in [-1, 1], and the generator's noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 15.0
    for _ in range(steps):
        centre = rng.uniform(0.25, 0.75, size=(batch_size, 2, 1, 1))
        width = rng.uniform(0.1, 0.25, size=(batch_size, 1, 1))
        blob = np.exp(-((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2) / (2 * width**2))
        images = 2.0 * blob[..., None] - 1.0 + 0.05 * rng.standard_normal((batch_size, 16, 16, 1))
        yield {
            "images": images.clip(-1, 1).astype("float32"),
            "noise": rng.uniform(-1, 1, size=(batch_size, 20)).astype("float32"),
        }
