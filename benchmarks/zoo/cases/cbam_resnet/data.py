"""Pictures of one textured patch before another texture; the class is that of the patch."""

import numpy as np


def texture(kind, x, y, phase):
    waves = [np.sin(9 * x + phase), np.sin(9 * y + phase), np.sin(7 * (x + y) + phase), np.sin(7 * (x - y) + phase),
             np.sin(14 * x) * np.sin(14 * y + phase), np.cos(20 * np.hypot(x - 0.5, y - 0.5) + phase)]
    return waves[kind]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:32, 0:32] / 32.0
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        images = np.zeros((batch_size, 32, 32, 3))
        for image, label in zip(images, labels):
            background = 0.3 * texture(rng.integers(0, 6), x, y, rng.uniform(0, 6))
            row, column = rng.integers(0, 14, size=2)
            background[row:row + 18, column:column + 18] = texture(label, x, y, rng.uniform(0, 6))[:18, :18]
            image += background[..., None] * rng.uniform(0.4, 1.0, size=3)
        images += 0.2 * rng.standard_normal(images.shape)
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
