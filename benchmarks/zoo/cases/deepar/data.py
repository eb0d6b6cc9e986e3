"""Counts of sold items: levels that differ by orders of magnitude, a weekly pattern, days that nobody recorded."""

import numpy as np

LENGTH, ITEMS = 18, 9


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    popularity = np.exp(rng.uniform(-0.5, 3.5, size=ITEMS))
    for _ in range(steps):
        item = rng.integers(0, ITEMS, size=batch_size)
        day = rng.integers(0, 7, size=(batch_size, 1)) + np.arange(LENGTH)[None, :]
        mean = popularity[item][:, None] * (1 + 0.6 * np.sin(2 * np.pi * day / 7))
        counts = rng.poisson(mean * rng.gamma(3.0, 1 / 3.0, size=mean.shape))
        observed = rng.random(mean.shape) < 0.85
        age = np.log1p(np.arange(LENGTH))[None, :].repeat(batch_size, 0) / 3
        covariates = np.stack([np.sin(2 * np.pi * day / 7), np.cos(2 * np.pi * day / 7), age], axis=-1)
        yield {
            "target": np.where(observed, counts, 0).astype("float32"),
            "observed": observed.astype("float32"),
            "covariates": covariates.astype("float32"),
            "item": item.astype("int32"),
        }
