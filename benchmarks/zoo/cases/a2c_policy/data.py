"""Rollouts of a small grid game: four planes, the action taken, the discounted return."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        obs = (rng.random((batch_size, 10, 10, 4)) < 0.15).astype("float32")
        me = rng.integers(0, 10, size=(batch_size, 2))
        obs[:, :, :, 0] = 0
        obs[np.arange(batch_size), me[:, 0], me[:, 1], 0] = 1
        actions = rng.integers(0, 5, size=batch_size)
        returns = np.round(rng.normal(1.0, 2.0, batch_size) * 0.99 ** rng.integers(0, 40, batch_size), 3)
        yield {"obs": obs * 255, "actions": actions.astype("int32"), "returns": returns.astype("float32")}
