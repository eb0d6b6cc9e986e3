"""Sentences from a small Markov chain, read from both ends; <S> is 0 and </S> is 1, weights are 1 where a target counts."""

import numpy as np

N_TOKENS = 40
UNROLL = 9


def _sentence(rng, length):
    words = [int(rng.integers(2, N_TOKENS))]
    while len(words) < length:
        step = int(rng.integers(1, 4)) if rng.random() < 0.8 else int(rng.integers(1, N_TOKENS - 2))
        words.append((words[-1] - 2 + step) % (N_TOKENS - 2) + 2)
    return [0] + words + [1]


def _padded(ids):
    return ids + [0] * (UNROLL - len(ids))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        columns = {"tokens": [], "next_tokens": [], "tokens_reverse": [], "next_tokens_reverse": []}
        weights = np.zeros((batch_size, UNROLL), dtype="float32")
        for row in range(batch_size):
            ids = _sentence(rng, int(rng.integers(4, UNROLL)))
            back = ids[::-1]
            columns["tokens"].append(_padded(ids[:-1]))
            columns["next_tokens"].append(_padded(ids[1:]))
            columns["tokens_reverse"].append(_padded(back[:-1]))
            columns["next_tokens_reverse"].append(_padded(back[1:]))
            weights[row, : len(ids) - 1] = 1.0
        batch = {name: np.array(rows, dtype="int32") for name, rows in columns.items()}
        batch["weights"] = weights
        yield batch
