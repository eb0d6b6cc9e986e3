"""Impressions: six categorical fields with a long tail, three counters, and a click that some pairs of fields decide."""

import numpy as np

FIELDS = (20, 12, 30, 8, 15, 10)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = [rng.standard_normal(size) for size in FIELDS]
    for _ in range(steps):
        ids = np.stack([np.minimum(rng.geometric(3.0 / size, batch_size) - 1, size - 1) for size in FIELDS], axis=1)
        counters = rng.gamma(1.5, 2.0, size=(batch_size, 3))
        value = [table[column] for table, column in zip(taste, ids.T)]
        score = value[0] * value[2] + value[1] - value[3] * value[4] + 0.3 * np.log1p(counters[:, 0]) - 0.5
        clicks = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        yield {"ids": ids.astype("int32"), "counters": counters.astype("float32"), "clicks": clicks.astype("float32")}
