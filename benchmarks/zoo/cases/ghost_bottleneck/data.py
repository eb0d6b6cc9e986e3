"""Small colour pictures of blobs on a gradient; the class says how many blobs there are and of which tint."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 15.0
    tints = np.array([[1.0, 0.2, 0.1], [0.1, 0.9, 0.3]])
    for _ in range(steps):
        labels = rng.integers(0, 8, size=batch_size)
        images = np.zeros((batch_size, 16, 16, 3))
        for image, label in zip(images, labels):
            image += (x * rng.uniform(-1, 1) + y * rng.uniform(-1, 1))[..., None]
            for _ in range(1 + label // 2):
                cx, cy = rng.uniform(0.1, 0.9, size=2)
                image += np.exp(-60 * ((x - cx) ** 2 + (y - cy) ** 2))[..., None] * tints[label % 2]
        images += 0.2 * rng.standard_normal(images.shape)
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
