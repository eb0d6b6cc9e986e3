"""Sentences with an aspect in them, whose polarity the words next to it tell. Word 0 is padding."""
import numpy as np

WORDS, LONGEST, ASPECT, POLARITIES = 40, 11, 3, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        sentences = np.zeros((batch_size, LONGEST), "int32")
        aspects = np.zeros((batch_size, ASPECT), "int32")
        lens, left, size = (np.zeros(batch_size, "int32") for _ in range(3))
        polarity = rng.integers(0, POLARITIES, batch_size)
        for row in range(batch_size):
            n = int(rng.integers(5, LONGEST + 1))
            a = int(rng.integers(1, ASPECT + 1))
            at = int(rng.integers(0, n - a))
            words = rng.integers(10, WORDS, n)
            words[at + a] = 1 + 3 * polarity[row] + rng.integers(0, 3)
            sentences[row, :n] = words
            aspects[row, :a] = words[at:at + a]
            lens[row], left[row], size[row] = n, at, a
        yield {"sentences": sentences, "aspects": aspects, "sentence_lens": lens, "left_lens": left, "aspect_lens": size,
               "labels": np.eye(POLARITIES, dtype="float32")[polarity]}
