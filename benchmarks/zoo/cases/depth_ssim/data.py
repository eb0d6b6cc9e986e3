"""Toy street scenes: a ground plane and boxes at several distances; the disparity is not known everywhere."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    height, width = 16, 24
    for _ in range(steps):
        ramp = np.linspace(0.05, 0.25, height)[None, :, None]
        disparity = np.repeat(np.repeat(ramp, batch_size, axis=0), width, axis=2)
        images = 0.3 + 0.2 * rng.random((batch_size, height, width, 3)) + disparity[..., None]
        for i in range(batch_size):
            for _ in range(2):
                top, left = rng.integers(0, height - 6), rng.integers(0, width - 6)
                near = rng.uniform(0.1, 0.28)
                disparity[i, top:top + 6, left:left + 6] = near
                images[i, top:top + 6, left:left + 6] = rng.random(3) * 0.6 + near
        valid = rng.random((batch_size, height, width, 1)) < rng.uniform(0.5, 0.95, size=(batch_size, 1, 1, 1))
        yield {
            "images": images.astype("float32"),
            "disparity": disparity[..., None].astype("float32"),
            "valid": valid.astype("float32"),
        }
