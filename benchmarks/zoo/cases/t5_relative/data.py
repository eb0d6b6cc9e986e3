"""Token sequences of different lengths with masked tokens; 0 is padding, 1 the mask, weights mark what is predicted."""

import numpy as np

LENGTH, VOCAB = 18, 60


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        start = rng.integers(0, VOCAB - 2, size=(batch_size, 1))
        stride = rng.integers(1, 6, size=(batch_size, 1))
        tokens = 2 + (start + stride * np.arange(LENGTH)[None, :]) % (VOCAB - 2)
        noise = rng.random(tokens.shape) < 0.1
        tokens = np.where(noise, rng.integers(2, VOCAB, size=tokens.shape), tokens)
        real = np.arange(LENGTH)[None, :] < rng.integers(9, LENGTH + 1, size=(batch_size, 1))
        masked = (rng.random(tokens.shape) < 0.3) & real
        masked[:, 0] = True
        tokens = np.where(real, tokens, 0)
        yield {
            "inputs": np.where(masked, 1, tokens).astype("int32"),
            "targets": tokens.astype("int32"),
            "weights": masked.astype("float32"),
        }
