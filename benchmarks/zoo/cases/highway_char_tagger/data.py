"""Sentences of words spelled from a small alphabet; a word's tag hangs on its last letter and on the word before it."""

import numpy as np

VOCABULARY, ALPHABET, TAGS = 50, 20, 7
LENGTH, WIDTH = 9, 8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, WIDTH + 1, size=VOCABULARY)
    spelling = rng.integers(1, ALPHABET, size=(VOCABULARY, WIDTH)) * (np.arange(WIDTH) < sizes[:, None])
    spelling[0] = 0
    last = spelling[np.arange(VOCABULARY), sizes - 1]
    for _ in range(steps):
        lengths = rng.integers(3, LENGTH + 1, size=batch_size)
        real = np.arange(LENGTH) < lengths[:, None]
        words = np.where(real, rng.integers(1, VOCABULARY, size=(batch_size, LENGTH)), 0)
        before = np.pad(words, ((0, 0), (1, 0)))[:, :-1]
        tags = np.where(real, (last[words] + before % 3) % TAGS, 0)
        keep = 0.75
        yield {
            "words": words.astype("int32"),
            "chars": spelling[words].astype("int32"),
            "lengths": lengths.astype("int32"),
            "tags": tags.astype("int32"),
            "dropout": ((rng.random((batch_size, LENGTH, 32)) < keep) / keep).astype("float32"),
        }
