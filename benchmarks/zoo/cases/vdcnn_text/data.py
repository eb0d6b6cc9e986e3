"""Characters of short texts of four kinds, each with a habit of its own (pairs of characters it likes); 0 pads a few at the end."""
import numpy as np

ALPHABET, LENGTH, CLASSES = 31, 24, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    habits = np.random.default_rng(5).dirichlet(np.full(ALPHABET - 1, 0.2), (CLASSES, 3))
    for _ in range(steps):
        kind = rng.integers(0, CLASSES, batch_size)
        chars = np.zeros((batch_size, LENGTH), "int32")
        for row, k in enumerate(kind):
            n = LENGTH - int(rng.integers(0, 4))
            for t in range(n):
                chars[row, t] = 1 + rng.choice(ALPHABET - 1, p=0.7 * habits[k, t % 3] + 0.3 / (ALPHABET - 1))
        yield {"chars": chars, "labels": np.eye(CLASSES, dtype="float32")[kind]}
