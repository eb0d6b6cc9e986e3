"""Small face-like blobs, one pattern per identity; `annealing` is lambda of the margin, which falls over the steps."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    prototypes = rng.standard_normal((10, 12, 12, 3))
    for step in range(steps):
        identities = rng.integers(0, 10, size=batch_size)
        images = 0.6 * prototypes[identities] + 0.5 * rng.standard_normal((batch_size, 12, 12, 3))
        yield {
            "images": images.astype("float32"),
            "identities": identities.astype("int32"),
            "annealing": np.full(batch_size, max(2.0, 8.0 / (1.0 + 0.5 * step)), "float32"),
        }
