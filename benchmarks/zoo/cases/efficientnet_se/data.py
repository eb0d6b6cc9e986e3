"""Small standardised pictures: a blob of a class's colour at a class's place; `survive` says whose branches are kept."""

import numpy as np

HEIGHT, WIDTH, CLASSES = 24, 20, 11
KEEP = 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, size=batch_size)
        angle = 2 * np.pi * labels / CLASSES
        cy = HEIGHT / 2 + 6 * np.sin(angle) + rng.normal(0, 1, batch_size)
        cx = WIDTH / 2 + 5 * np.cos(angle) + rng.normal(0, 1, batch_size)
        blob = np.exp(-((y - cy[:, None, None]) ** 2 + (x - cx[:, None, None]) ** 2) / 12.0)
        colour = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)], axis=-1)
        images = 2 * blob[..., None] * colour[:, None, None, :] + 0.6 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        survive = rng.random((batch_size, 2)) < KEEP
        yield {
            "images": images.astype("float32"),
            "labels": labels.astype("int32"),
            "survive": survive.astype("float32"),
        }
