"""Token sequences of several dialects, each a cycle of its own; id 0 is padding behind the end."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        dialect = rng.integers(1, 5, size=(batch_size, 1))
        start = rng.integers(0, 39, size=(batch_size, 1))
        tokens = (start + dialect * np.arange(13)[None, :]) % 39 + 1
        noise = rng.random(tokens.shape) < 0.2
        tokens = np.where(noise, rng.integers(1, 40, size=tokens.shape), tokens)
        lengths = rng.integers(7, 13, size=(batch_size, 1))
        inside = np.arange(12)[None, :] < lengths
        yield {
            "inputs": np.where(inside, tokens[:, :-1], 0).astype("int32"),
            "targets": np.where(inside, tokens[:, 1:], 0).astype("int32"),
            "nonpadding": inside.astype("float32"),
        }
