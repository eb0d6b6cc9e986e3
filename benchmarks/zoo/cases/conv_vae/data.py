"""Binary pictures of one or two bars, and the noise of the reparameterisation."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = np.zeros((batch_size, 12, 12, 1))
        for image in images:
            for _ in range(rng.integers(1, 3)):
                at, width = rng.integers(0, 9), rng.integers(1, 4)
                if rng.random() < 0.5:
                    image[at : at + width] = 1
                else:
                    image[:, at : at + width] = 1
        flip = rng.random(images.shape) < 0.03
        yield {
            "images": np.where(flip, 1 - images, images).astype("float32"),
            "noise": rng.standard_normal((batch_size, 6)).astype("float32"),
        }
