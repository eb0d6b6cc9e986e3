"""Impressions of a shop: who, what, where, what was clicked before (padded with 0), and two counters."""

import numpy as np

HISTORY = 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        user = rng.integers(0, 40, size=batch_size)
        item = rng.integers(1, 30, size=batch_size)
        position = rng.integers(0, 5, size=batch_size)
        lengths = rng.integers(1, HISTORY + 1, size=batch_size)
        history = rng.integers(1, 30, size=(batch_size, HISTORY))
        history = np.where(np.arange(HISTORY)[None, :] < lengths[:, None], history, 0)
        counters = rng.poisson(4.0, size=(batch_size, 2)) + rng.uniform(0, 0.5, size=(batch_size, 2))
        chance = 1 / (1 + np.exp(0.5 * position - 0.1 * (item % 7) - 0.1 * counters[:, 0]))
        clicked = rng.random(batch_size) < chance
        weights = rng.uniform(0.5, 1.5, size=batch_size) * (rng.random(batch_size) < 0.8)
        weights[:: batch_size // 12] = 1.0
        yield {
            "user": user.astype("int32"),
            "item": item.astype("int32"),
            "position": position.astype("int32"),
            "history": history.astype("int32"),
            "counters": counters.astype("float32"),
            "clicked": clicked.astype("float32"),
            "weights": weights.astype("float32"),
        }
