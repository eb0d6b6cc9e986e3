"""Pairs of sentences: entailed ones repeat words of the first, contradictions shift them, others are new."""

import numpy as np

LENGTH = 9
WORDS = 60


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 3, size=batch_size)
        sentences = np.zeros((2, batch_size, LENGTH), "int32")
        for row, label in enumerate(labels):
            first = rng.integers(1, WORDS, size=rng.integers(4, LENGTH + 1))
            second = rng.permutation(first)[: rng.integers(3, len(first) + 1)]
            if label == 1:
                second = rng.integers(1, WORDS, size=len(second))
            elif label == 2:
                second = second % (WORDS - 1) + 1
            sentences[0, row, : len(first)] = first
            sentences[1, row, : len(second)] = second
        yield {
            "sentence1": sentences[0],
            "sentence2": sentences[1],
            "mask1": (sentences[0] > 0).astype("float32"),
            "mask2": (sentences[1] > 0).astype("float32"),
            "labels": labels.astype("int32"),
        }
