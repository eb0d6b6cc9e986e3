"""Packed streams of short documents: `starts` is 1 at the first token of a document, `weights` 0 behind the end."""

import numpy as np


def batches(steps, batch_size, seed, length=11, vocab=48):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tokens = np.zeros((batch_size, length + 1), dtype=np.int64)
        starts = np.zeros((batch_size, length), dtype=np.float32)
        for i in range(batch_size):
            word = rng.integers(1, vocab)
            for t in range(length + 1):
                if t and t < length and rng.random() < 0.2:
                    starts[i, t] = 1.0
                    word = rng.integers(1, vocab)
                tokens[i, t] = word
                word = (3 * word + rng.integers(0, 3)) % (vocab - 1) + 1
        ends = rng.integers(length // 2, length + 1, size=(batch_size, 1))
        weights = (np.arange(length)[None, :] < ends).astype("float32")
        yield {
            "inputs": tokens[:, :-1].astype("int32"),
            "targets": tokens[:, 1:].astype("int32"),
            "starts": starts,
            "weights": weights,
        }
