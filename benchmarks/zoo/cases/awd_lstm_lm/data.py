"""Stretches of text from a random bigram model, with the masks of locked dropout: one per sentence."""

import numpy as np

WORDS, LENGTH = 80, 12
EMBED, HIDDEN = 18, 26


def locked(rng, batch_size, width, keep):
    return ((rng.random((batch_size, 1, width)) < keep) / keep).astype("float32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    follows = rng.integers(0, WORDS, size=(WORDS, 4))
    for _ in range(steps):
        text = np.zeros((batch_size, LENGTH + 1), "int32")
        text[:, 0] = rng.integers(0, WORDS, size=batch_size)
        for i in range(LENGTH):
            text[:, i + 1] = follows[text[:, i], rng.integers(0, 4, size=batch_size)]
        yield {
            "tokens": text[:, :-1],
            "targets": text[:, 1:],
            "mask_input": locked(rng, batch_size, EMBED, 0.6),
            "mask_hidden": locked(rng, batch_size, HIDDEN, 0.75),
            "mask_output": locked(rng, batch_size, EMBED, 0.6),
        }
