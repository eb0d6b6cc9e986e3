"""Clicks of users on items with a few more categorical fields and dense features; frequent ids are small ones."""

import numpy as np

VOCABULARIES = (31, 45, 12, 7, 17, 9)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = [rng.standard_normal(n) for n in VOCABULARIES]
    for _ in range(steps):
        ids = np.stack([(n * rng.random(batch_size) ** 2).astype(int) for n in VOCABULARIES], axis=1)
        dense = rng.standard_normal((batch_size, 4))
        score = sum(t[ids[:, i]] for i, t in enumerate(taste)) + dense @ np.array([0.5, -0.3, 0.8, 0.1])
        labels = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        yield {"ids": ids.astype("int32"), "dense": dense.astype("float32"), "labels": labels.astype("float32")}
