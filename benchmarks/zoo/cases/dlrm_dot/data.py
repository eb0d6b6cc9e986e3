"""Advertisements: counts, and for each of three fields a bag of four ids with weights, of which the rest is 0."""

import numpy as np

SIZES = (100, 60, 150)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    quality = [rng.standard_normal(size) for size in SIZES]
    for _ in range(steps):
        counts = np.floor(np.exp(rng.normal(1.0, 1.2, size=(batch_size, 7))))
        ids = np.stack([rng.integers(0, size, size=(batch_size, 4)) for size in SIZES], axis=1)
        there = np.arange(4)[None, None, :] < rng.integers(1, 5, size=(batch_size, 3, 1))
        weights = np.where(there, rng.uniform(0.2, 1.5, size=ids.shape), 0.0)
        score = sum((quality[i][ids[:, i]] * weights[:, i]).sum(1) for i in range(3)) - 0.2 * np.log1p(counts).sum(1)
        click = rng.random(batch_size) < 1 / (1 + np.exp(-0.8 * score))
        yield {
            "counts": counts.astype("float32"),
            "ids": ids.astype("int32"),
            "weights": weights.astype("float32"),
            "click": click.astype("float32"),
        }
