"""Binary 6x6 pictures of a bar across, and the noise of the posterior."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = rng.random((batch_size, 6, 6)) < 0.1
        row, width = rng.integers(0, 6, size=batch_size), rng.integers(2, 7, size=batch_size)
        for image, r, w in zip(images, row, width):
            image[r, :w] = True
        yield {
            "images": images.astype("float32"),
            "noise": rng.standard_normal((batch_size, 6)).astype("float32"),
        }
