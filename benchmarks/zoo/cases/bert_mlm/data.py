"""Pairs of short token sequences, some tokens masked; 0 pads, 1 opens, 2 separates, 3 masks."""

import numpy as np

VOCAB = 67
LENGTH = 18
PREDICTIONS = 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        ids = np.zeros((batch_size, LENGTH), "int32")
        segments = np.zeros((batch_size, LENGTH), "int32")
        positions = np.zeros((batch_size, PREDICTIONS), "int32")
        labels = np.zeros((batch_size, PREDICTIONS), "int32")
        weights = np.zeros((batch_size, PREDICTIONS), "float32")
        is_next = rng.integers(0, 2, size=batch_size)
        for row in range(batch_size):
            first, second = rng.integers(3, 8), rng.integers(3, 8)
            start = rng.integers(4, VOCAB)
            a = (start - 4 + 3 * np.arange(first)) % (VOCAB - 4) + 4
            other = a[-1] + 3 if is_next[row] else rng.integers(4, VOCAB)
            b = (other - 4 + 3 * np.arange(second)) % (VOCAB - 4) + 4
            tokens = np.concatenate([[1], a, [2], b, [2]])
            ids[row, : len(tokens)] = tokens
            segments[row, first + 2 : len(tokens)] = 1
            candidates = [i for i, token in enumerate(tokens) if token > 3]
            count = rng.integers(2, PREDICTIONS + 1)
            chosen = np.sort(rng.permutation(candidates)[:count])
            positions[row, : len(chosen)] = chosen
            labels[row, : len(chosen)] = tokens[chosen]
            weights[row, : len(chosen)] = 1.0
            for i in chosen:
                draw = rng.random()
                ids[row, i] = 3 if draw < 0.8 else tokens[i] if draw < 0.9 else rng.integers(4, VOCAB)
        yield {
            "input_ids": ids,
            "input_mask": (ids > 0).astype("int32"),
            "segment_ids": segments,
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": weights,
            "next_sentence_labels": (1 - is_next).astype("int32"),
        }
