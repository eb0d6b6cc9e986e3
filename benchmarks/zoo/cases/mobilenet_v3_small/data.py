"""Colour pictures of seven classes: gratings of seven directions and widths, each with its own tint, under noise."""
import numpy as np

HEIGHT, WIDTH, CLASSES = 24, 20, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    tints = np.random.default_rng(99).normal(0, 0.4, (CLASSES, 3))
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        angle = labels * np.pi / CLASSES + rng.normal(0, 0.1, batch_size)
        width = 2.0 + 0.4 * labels + rng.normal(0, 0.1, batch_size)
        along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
        wave = np.sin(along / width[:, None, None] + rng.uniform(0, 6, (batch_size, 1, 1)))
        images = 0.7 * wave[..., None] + tints[labels][:, None, None, :] + 0.4 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
