"""Rows of a table: eight numbers and a kind; which numbers decide the class depends on the kind."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        numeric = rng.standard_normal((batch_size, 8)) * np.linspace(0.5, 2.0, 8) + np.linspace(-1, 1, 8)
        kind = rng.integers(0, 6, size=batch_size)
        rows = np.arange(batch_size)
        score = numeric[rows, kind] - 0.7 * numeric[rows, (kind + 3) % 8] + 0.3 * rng.standard_normal(batch_size)
        labels = np.digitize(score, [-0.8, 0.8])
        yield {"numeric": numeric.astype("float32"), "kind": kind.astype("int32"), "labels": labels.astype("int32")}
