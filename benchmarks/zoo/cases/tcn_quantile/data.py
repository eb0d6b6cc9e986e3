"""Seasonal demand of a few stores: a history, what is known of the days ahead, and targets of which some are missing."""

import numpy as np

HISTORY, HORIZON, STORES = 24, 6, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.5, 2.0, size=STORES)
    for _ in range(steps):
        store = rng.integers(0, STORES, size=batch_size)
        day = rng.integers(0, 7, size=(batch_size, 1)) + np.arange(HISTORY + HORIZON)[None, :]
        promotion = (rng.random(day.shape) < 0.2).astype("float64")
        demand = level[store][:, None] * (1 + 0.5 * np.sin(2 * np.pi * day / 7)) + 0.6 * promotion
        demand = demand + 0.25 * rng.standard_normal(day.shape)
        calendar = np.stack([np.cos(2 * np.pi * day / 7), promotion], axis=-1)
        observed = rng.random((batch_size, HORIZON)) < 0.8
        observed[:, 0] = True
        yield {
            "history": np.concatenate([demand[..., None], calendar], -1)[:, :HISTORY].astype("float32"),
            "future": calendar[:, HISTORY:].astype("float32"),
            "store": store.astype("int32"),
            "targets": np.where(observed, demand[:, HISTORY:], 0).astype("float32"),
            "observed": observed.astype("float32"),
        }
