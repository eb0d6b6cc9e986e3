"""Clicks on advertisements: seven fields of categories of very different sizes, one value each; clicks are rare."""
import numpy as np

FIELDS = (11, 5, 23, 3, 17, 8, 14)
SIZE = sum(FIELDS)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum((0,) + FIELDS[:-1])
    taste = rng.standard_normal((SIZE, 3)) * 0.8
    bias = rng.standard_normal(SIZE) * 0.4
    for _ in range(steps):
        ids = np.stack([np.minimum(rng.zipf(1.6, batch_size) - 1, n - 1) for n in FIELDS], 1)
        values = np.ones((batch_size, len(FIELDS)), np.float32)
        values[:, 4:6] = np.log1p(rng.lognormal(0.3, 0.8, (batch_size, 2)))     # counts of these
        values[rng.random(values.shape) < 0.06] = 0.0                           # missing
        rows = ids + starts
        z = values[..., None] * taste[rows]
        pairs = (z.sum(1) ** 2 - (z ** 2).sum(1)).sum(1) / 2
        score = (values * bias[rows]).sum(1) + 0.5 * pairs - 1.2
        labels = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        yield {"ids": ids.astype(np.int64), "values": values, "labels": labels.astype(np.float32)}
