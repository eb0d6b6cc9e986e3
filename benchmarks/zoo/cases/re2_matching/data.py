"""Pairs of sentences as word ids with a relation of three kinds; the second repeats, varies or ignores the first."""
import numpy as np

VOCAB, LEN_A, LEN_B, FEATURES = 60, 9, 7, 4 * 24


def pair(rng, relation):
    len_a, len_b = rng.integers(3, LEN_A + 1), rng.integers(2, LEN_B + 1)
    a = rng.integers(4, VOCAB, len_a)
    b = rng.integers(4, VOCAB, len_b)
    if relation < 2:
        copied = rng.random(len_b) < 0.8
        b = np.where(copied, rng.choice(a, len_b), b)
    if relation == 1:
        b[rng.integers(len_b)] = 3  # a word of negation
    return a, b


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        target = rng.integers(0, 3, batch_size)
        text_a, text_b = np.zeros((batch_size, LEN_A), np.int32), np.zeros((batch_size, LEN_B), np.int32)
        for i, relation in enumerate(target):
            a, b = pair(rng, relation)
            text_a[i, :len(a)], text_b[i, :len(b)] = a, b
        kept = rng.random((batch_size, FEATURES)) < 0.8
        yield {"text_a": text_a, "text_b": text_b, "mask_a": (text_a > 0).astype(np.float32),
               "mask_b": (text_b > 0).astype(np.float32), "drop": (kept / 0.8).astype(np.float32),
               "target": target.astype(np.int32)}
