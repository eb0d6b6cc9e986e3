"""Small colour pictures of nine classes: a bright spot at one of nine places on a tinted, noisy ground."""

import numpy as np

HEIGHT, WIDTH = 14, 18


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        labels = rng.integers(0, 9, size=batch_size)
        row = (labels // 3 + 0.5) * HEIGHT / 3 + rng.normal(0, 0.7, batch_size)
        column = (labels % 3 + 0.5) * WIDTH / 3 + rng.normal(0, 0.7, batch_size)
        distance = (y - row[:, None, None]) ** 2 + (x - column[:, None, None]) ** 2
        spot = np.exp(-distance / 6.0)[..., None] * rng.uniform(1.0, 2.5, size=(batch_size, 1, 1, 3))
        tint = rng.normal(0, 0.5, size=(batch_size, 1, 1, 3))
        images = spot + tint + 0.3 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
