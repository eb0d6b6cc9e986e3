"""Blobs measured in the cosine domain: the low rows are always sampled, of the others a third, with noise."""

import numpy as np


def cosines(n):
    k, i = np.mgrid[0:n, 0:n]
    matrix = np.sqrt(2.0 / n) * np.cos(np.pi * k * (2 * i + 1) / (2 * n))
    matrix[0] /= np.sqrt(2.0)
    return matrix


def batches(steps, batch_size, seed, n=12):
    rng = np.random.default_rng(seed)
    transform = cosines(n)
    y, x = np.mgrid[0:n, 0:n]
    for _ in range(steps):
        images = np.zeros((batch_size, n, n))
        for _blob in range(4):
            cy, cx = rng.uniform(1, n - 1, (2, batch_size, 1, 1))
            width = rng.uniform(1.0, 2.5, (batch_size, 1, 1))
            height = rng.uniform(0.3, 1.5, (batch_size, 1, 1))
            images += height * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * width ** 2))
        images *= rng.uniform(0.5, 3.0, (batch_size, 1, 1))
        rows = rng.random((batch_size, n, 1)) < 0.33
        rows[:, :4] = True
        mask = np.broadcast_to(rows, (batch_size, n, n)).astype("float64")
        spectrum = transform @ images @ transform.T
        spectrum = mask * (spectrum + 0.05 * rng.standard_normal(spectrum.shape))
        yield {
            "spectrum": spectrum[..., None].astype("float32"),
            "mask": mask[..., None].astype("float32"),
            "target": images[..., None].astype("float32"),
        }
