"""Bags of short token sequences. A bag is positive where one of its sequences holds a key token; most bags are negative."""

import numpy as np

INSTANCES = 5
STEPS = 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        bag_sizes = rng.integers(2, INSTANCES + 1, size=batch_size)
        lengths = rng.integers(2, STEPS + 1, size=(batch_size, INSTANCES))
        lengths[np.arange(INSTANCES)[None, :] >= bag_sizes[:, None]] = 0
        tokens = rng.integers(1, 40, size=(batch_size, INSTANCES, STEPS))
        tokens[np.arange(STEPS)[None, None, :] >= lengths[:, :, None]] = 0
        labels = (tokens >= 36).any(axis=(1, 2))
        yield {
            "tokens": tokens.astype("int32"),
            "lengths": lengths.astype("int32"),
            "bag_sizes": bag_sizes.astype("int32"),
            "labels": labels.astype("float32"),
        }
