"""Passages and questions as word ids, 0 behind their ends; the answer lies behind a word that the question names."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x = rng.integers(1, 60, size=(batch_size, 14))
        q = rng.integers(1, 60, size=(batch_size, 6))
        x_len = rng.integers(8, 15, size=batch_size)
        q_len = rng.integers(3, 7, size=batch_size)
        start = rng.integers(1, 5, size=batch_size)
        stop = start + rng.integers(0, 3, size=batch_size)
        q[np.arange(batch_size), rng.integers(0, 3, batch_size)] = x[np.arange(batch_size), start - 1]
        x[np.arange(14)[None] >= x_len[:, None]] = 0
        q[np.arange(6)[None] >= q_len[:, None]] = 0
        yield {"x": x.astype("int32"), "q": q.astype("int32"), "y": np.eye(14, dtype="float32")[start],
               "y2": np.eye(14, dtype="float32")[stop]}
