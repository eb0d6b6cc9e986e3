"""Token sequences whose topic shows in some of their words, with the dropout masks of both passes (0 or 1 / 0.8)."""

import numpy as np

LENGTH = 8
WIDTH = 16
KEEP = 0.8


def _masks(rng, *shape):
    return ((rng.random(shape) < KEEP) / KEEP).astype("float32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        lengths = rng.integers(3, LENGTH + 1, size=batch_size)
        tokens = rng.integers(1, 48, size=(batch_size, LENGTH))
        topical = rng.random(tokens.shape) < 0.4
        tokens = np.where(topical, 1 + labels[:, None] * 7 + rng.integers(0, 7, size=tokens.shape), tokens)
        tokens[np.arange(LENGTH)[None, :] >= lengths[:, None]] = 0
        yield {
            "tokens": tokens.astype("int32"),
            "labels": labels.astype("int32"),
            "embedding_masks": _masks(rng, batch_size, 2, LENGTH, WIDTH),
            "pooled_masks": _masks(rng, batch_size, 2, WIDTH),
        }
