"""Positions of a 6 by 6 board game in four planes: own and other stones, the last move, who is to move."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        board = rng.choice(3, size=(batch_size, 6, 6), p=[0.5, 0.25, 0.25])
        planes = np.zeros((batch_size, 6, 6, 4))
        planes[..., 0] = board == 1
        planes[..., 1] = board == 2
        for i in range(batch_size):
            planes[i, rng.integers(6), rng.integers(6), 2] = 1
        planes[..., 3] = rng.integers(0, 2, size=(batch_size, 1, 1))
        prior = rng.gamma(0.3, size=(batch_size, 37)) + 1e-3
        prior[:, :36] *= (board == 0).reshape(batch_size, 36)
        visits = rng.multinomial(64, prior / prior.sum(axis=1, keepdims=True))  # of 64 simulations
        lead = (board == 1).sum(axis=(1, 2)) - (board == 2).sum(axis=(1, 2))
        yield {
            "pos": planes.astype("float32"),
            "pi": (visits / 64).astype("float32"),
            "z": np.where(lead + rng.normal(0, 2, size=batch_size) > 0, 1.0, -1.0).astype("float32"),
        }
