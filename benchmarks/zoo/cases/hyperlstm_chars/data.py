"""Text of a chain of characters with few successors each, in lines of three to six; zero stands for the end and for padding."""

import numpy as np

CHARS, LENGTH = 20, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet(np.full(CHARS - 1, 0.2), size=CHARS)
    for _ in range(steps):
        text = np.zeros((batch_size, LENGTH + 1), "int32")
        lengths = rng.integers(3, LENGTH + 1, batch_size)
        for row, n in zip(text, lengths):
            row[0] = rng.integers(1, CHARS)
            for t in range(1, n):
                row[t] = rng.choice(np.arange(1, CHARS), p=chain[row[t - 1]])
        mask = np.arange(LENGTH) < lengths[:, None]
        yield {"inputs": text[:, :-1].copy(), "targets": text[:, 1:].copy(), "mask": mask.astype("float32")}
