"""Sentences of a random bigram grammar, cut at 7 tokens, and the state that the segment before has left."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    following = rng.integers(1, 40, size=(40, 3))
    for _ in range(steps):
        tokens = np.zeros((batch_size, 8), dtype="int64")
        tokens[:, 0] = rng.integers(1, 40, batch_size)
        for t in range(1, 8):
            tokens[:, t] = following[tokens[:, t - 1], rng.integers(0, 3, batch_size)]
        lengths = rng.integers(4, 8, (batch_size, 1))
        weights = np.arange(7)[None, :] < lengths
        yield {
            "x": tokens[:, :-1].astype("int32"),
            "y": np.where(weights, tokens[:, 1:], 0).astype("int32"),
            "w": weights.astype("float32"),
            "state": rng.normal(0.0, 0.6, (batch_size, 2, 2, 14)).astype("float32"),
        }
