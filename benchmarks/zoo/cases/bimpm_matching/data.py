"""Pairs of short sentences; a pair is a paraphrase where the second is a shuffled part of the first."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        first_lengths = rng.integers(3, 8, batch_size)
        second_lengths = rng.integers(3, 7, batch_size)
        labels = rng.integers(0, 2, batch_size)
        first = rng.integers(1, 30, (batch_size, 7))
        second = rng.integers(1, 30, (batch_size, 6))
        for n in range(batch_size):
            if labels[n]:
                second[n] = rng.permutation(first[n, :first_lengths[n]])[np.arange(6) % first_lengths[n]]
        first_mask = np.arange(7)[None, :] < first_lengths[:, None]
        second_mask = np.arange(6)[None, :] < second_lengths[:, None]
        yield {
            "question": (second * second_mask).astype("int32"),
            "question_mask": second_mask.astype("float32"),
            "passage": (first * first_mask).astype("int32"),
            "passage_mask": first_mask.astype("float32"),
            "truth": labels.astype("int32"),
        }
