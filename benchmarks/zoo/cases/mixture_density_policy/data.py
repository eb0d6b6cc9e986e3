"""A demonstrator that passes an obstacle on either side: observations of odd scales, actions in (-1, 1), returns."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    scales = np.array([1.0, 5.0, 0.2, 2.0, 10.0, 1.0])
    offsets = np.array([0.0, 3.0, -0.1, 1.0, -4.0, 0.5])
    mixing = np.random.default_rng(77).standard_normal((6, 3)) * 0.5
    for _ in range(steps):
        raw = rng.standard_normal((batch_size, 6))
        side = rng.choice([-0.8, 0.8], size=(batch_size, 1))
        actions = np.tanh(raw @ mixing + side + 0.2 * rng.standard_normal((batch_size, 3)))
        returns = raw[:, 0] + 0.5 * side[:, 0] + 0.3 * rng.standard_normal(batch_size)
        yield {
            "observations": (offsets + scales * raw).astype("float32"),
            "actions": np.clip(actions, -0.995, 0.995).astype("float32"),
            "returns": returns.astype("float32"),
        }
