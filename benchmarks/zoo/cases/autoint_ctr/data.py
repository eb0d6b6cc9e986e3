"""Clicks on 7 fields: two numeric ones, which have one row each and a value, and five categories."""

import numpy as np

SIZES = [1, 1, 9, 12, 17, 21, 28]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0] + SIZES[:-1])
    taste = np.random.default_rng(7).normal(size=sum(SIZES))
    for _ in range(steps):
        index = np.stack([start + rng.integers(0, size, batch_size) for start, size in zip(starts, SIZES)], 1)
        value = np.ones((batch_size, len(SIZES)))
        value[:, :2] = rng.lognormal(0.0, 0.6, size=(batch_size, 2))
        score = (taste[index] * value).sum(1) + taste[index[:, 2]] * taste[index[:, 5]]
        label = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        yield {
            "feat_index": index.astype("int32"),
            "feat_value": value.astype("float32"),
            "label": label.astype("float32")[:, None],
        }
