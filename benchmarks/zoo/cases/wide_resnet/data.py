"""Small standardised pictures, a blob of its own colour per class; `cutout` is 0 in a random square of each and 1 elsewhere."""

import numpy as np

HEIGHT, WIDTH, SQUARE = 12, 20, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    colours = rng.standard_normal((7, 3))
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        labels = rng.integers(0, 7, size=batch_size)
        cy = rng.integers(0, HEIGHT, size=(batch_size, 1, 1))
        cx = rng.integers(0, WIDTH, size=(batch_size, 1, 1))
        blob = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 18.0)
        images = 2 * blob[..., None] * colours[labels][:, None, None] + 0.6 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        oy = rng.integers(0, HEIGHT, size=(batch_size, 1, 1))
        ox = rng.integers(0, WIDTH, size=(batch_size, 1, 1))
        hole = (abs(y - oy) < SQUARE // 2) & (abs(x - ox) < SQUARE // 2)
        yield {
            "images": images.astype("float32"),
            "cutout": (~hole).astype("float32"),
            "labels": labels.astype("int32"),
        }
