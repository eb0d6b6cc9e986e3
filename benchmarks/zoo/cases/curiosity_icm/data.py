"""Rollouts of five steps on an 8 by 8 board: a walker's square moves by its action; states as the rollout left them."""

import numpy as np

MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        actions = rng.integers(0, 4, size=(batch_size, 5))
        start = rng.integers(0, 8, size=(batch_size, 1, 2))
        path = np.concatenate([start, start + MOVES[actions].cumsum(axis=1)], axis=1) % 8
        frames = 0.3 * rng.standard_normal((batch_size, 6, 8, 8, 2))
        examples, times = np.ogrid[:batch_size, :6]
        frames[examples, times, path[..., 0], path[..., 1], 0] += 2.0
        frames[..., 1] += rng.uniform(-0.5, 0.5, size=(batch_size, 1, 1, 1))
        yield {
            "frames": frames.astype("float32"),
            "actions": actions.astype("int32"),
            "advantages": rng.normal(0.1, 1.0, size=(batch_size, 5)).astype("float32"),
            "returns": rng.normal(0.5, 1.0, size=(batch_size, 5)).astype("float32"),
            "c_in": rng.normal(0.0, 0.7, size=(batch_size, 16)).astype("float32"),
            "h_in": np.tanh(rng.normal(0.0, 0.7, size=(batch_size, 16))).astype("float32"),
        }
