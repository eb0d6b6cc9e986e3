"""Token sequences from a noisy cyclic grammar; weights are 1 for target tokens that count."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        start = rng.integers(1, 64, size=(batch_size, 1))
        stride = rng.integers(1, 5, size=(batch_size, 1))
        tokens = (start + stride * np.arange(15)[None, :] - 1) % 63 + 1
        noise = rng.random(tokens.shape) < 0.15
        tokens = np.where(noise, rng.integers(1, 64, size=tokens.shape), tokens)
        lengths = rng.integers(6, 15, size=(batch_size, 1))
        weights = np.arange(14)[None, :] < lengths
        yield {
            "inputs": tokens[:, :-1].astype("int32"),
            "targets": np.where(weights, tokens[:, 1:], 0).astype("int32"),
            "weights": weights.astype("float32"),
        }
