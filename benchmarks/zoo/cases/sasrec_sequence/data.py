"""Histories of users, padded with 0 on the left; the item that comes next, and one never seen, at every place."""
import numpy as np

ITEMS, LENGTH, WIDTH = 41, 9, 16
KEEP = 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    follows = 1 + (np.arange(ITEMS + 1) * 7 + 3) % ITEMS       # what most often follows an item
    popular = 1.0 / np.arange(1, ITEMS + 1) ** 0.6
    popular /= popular.sum()
    for _ in range(steps):
        seq = np.zeros((batch_size, LENGTH), np.int64)
        pos, neg = seq.copy(), seq.copy()
        for i in range(batch_size):
            n = min(LENGTH, 2 + rng.geometric(0.2)) if i % 3 else LENGTH
            history = [rng.choice(ITEMS, p=popular) + 1]
            for _ in range(n):
                history.append(follows[history[-1]] if rng.random() < 0.7 else rng.choice(ITEMS, p=popular) + 1)
            others = np.setdiff1d(np.arange(1, ITEMS + 1), history)
            seq[i, -n:], pos[i, -n:] = history[:-1], history[1:]
            neg[i, -n:] = rng.choice(others, n)
        dropout = (rng.random((batch_size, LENGTH, WIDTH)) < KEEP) / KEEP
        yield {"seq": seq, "pos": pos, "neg": neg, "dropout": dropout.astype(np.float32)}
