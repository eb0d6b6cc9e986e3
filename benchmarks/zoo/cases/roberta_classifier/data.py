"""Short sentences between <s> and </s>, padded with <pad> = 1; the label depends on the first words."""

import numpy as np

BOS, PAD, EOS = 0, 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tokens = np.full((batch_size, 11), PAD)
        lengths = rng.integers(5, 12, size=batch_size)
        for row, length in zip(tokens, lengths):
            row[:length] = rng.integers(3, 70, size=length)
            row[0], row[length - 1] = BOS, EOS
        labels = (tokens[:, 1] + tokens[:, 2]) % 5
        yield {
            "input_ids": tokens.astype("int32"),
            "input_mask": (tokens != PAD).astype("float32"),
            "labels": labels.astype("int32"),
        }
