"""Sequences of words by a Zipf-like law; the state is what was carried over from the text before."""

import numpy as np

VOCAB, LENGTH, HIDDEN = 60, 9, 32


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    chance = 1.0 / np.arange(3, VOCAB + 3)
    chance /= chance.sum()
    for _ in range(steps):
        tokens = rng.choice(VOCAB, size=(batch_size, LENGTH + 1), p=chance)
        # every sequence has a word of each class of frequency in its first places
        tokens[:, 1] = rng.integers(12, 30, size=batch_size)
        tokens[:, 2] = rng.integers(30, VOCAB, size=batch_size)
        tokens[:, 3] = rng.integers(0, 12, size=batch_size)
        lengths = rng.integers(4, LENGTH + 1, size=(batch_size, 1))
        keep = (rng.random((batch_size, LENGTH, 16)) < 0.8) / 0.8
        yield {
            "inputs": tokens[:, :-1].astype("int32"),
            "targets": tokens[:, 1:].astype("int32"),
            "weights": (np.arange(LENGTH)[None, :] < lengths).astype("float32"),
            "state": np.tanh(0.5 * rng.standard_normal((batch_size, 2, HIDDEN))).astype("float32"),
            "keep": keep.astype("float32"),
        }
