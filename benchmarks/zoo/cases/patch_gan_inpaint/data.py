"""Smooth pictures in -1 .. 1, and masks that are 1 in a rectangular hole."""

import numpy as np

HEIGHT, WIDTH = 16, 12


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        phase = rng.uniform(0, 6.28, size=(batch_size, 1, 1, 3))
        fy, fx = rng.uniform(0.1, 0.6, size=(2, batch_size, 1, 1, 1))
        images = np.sin(fy * y[None, :, :, None] + fx * x[None, :, :, None] + phase) * 0.8
        images = np.clip(images + 0.1 * rng.standard_normal(images.shape), -1, 1)
        masks = np.zeros((batch_size, HEIGHT, WIDTH, 1))
        for mask in masks:
            height, width = rng.integers(6, 10), rng.integers(5, 8)
            top, left = rng.integers(0, HEIGHT - height), rng.integers(0, WIDTH - width)
            mask[top:top + height, left:left + width] = 1
        yield {"images": images.astype("float32"), "masks": masks.astype("float32")}
