"""Parallel sessions of clicks, as GRU4Rec feeds them: where one ends, the next begins in its row."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        clicks = np.zeros((batch_size, 7), "int64")
        clicks[:, 0] = rng.integers(0, 80, batch_size)
        begins = rng.random((batch_size, 6)) < 0.2
        for t in range(1, 7):
            near = (clicks[:, t - 1] + rng.integers(1, 6, batch_size)) % 80
            clicks[:, t] = np.where(rng.random(batch_size) < 0.8, near, rng.integers(0, 80, batch_size))
        state = rng.standard_normal((batch_size, 24)) * 0.5
        yield {"items": clicks[:, :6].astype("int32"), "targets": clicks[:, 1:].astype("int32"),
               "begins": begins.astype("float32"), "state": np.tanh(state).astype("float32")}
