"""Latents, images of two coloured discs with numbers from 0 to 255, and how real and generated images are mixed."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:8, 0:8]
    for _ in range(steps):
        images = np.zeros((batch_size, 8, 8, 3))
        for _ in range(2):
            centre = rng.uniform(1, 7, size=(2, batch_size, 1, 1))
            disc = 1 / (1 + np.exp((x - centre[0]) ** 2 + 0.6 * (y - centre[1]) ** 2 - 4))
            images += disc[..., None] * rng.uniform(20, 120, size=(batch_size, 1, 1, 3))
        images += rng.uniform(0, 15, size=images.shape)
        yield {
            "latents": rng.standard_normal((batch_size, 12)).astype("float32"),
            "reals": np.clip(images, 0, 255).astype("float32"),
            "mixing": rng.uniform(0, 1, size=(batch_size, 1, 1, 1)).astype("float32"),
        }
