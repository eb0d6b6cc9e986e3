"""Click logs: six fields with an id and a value each, labels from a hidden pairwise score; dropout masks are drawn here."""

import numpy as np

FIELDS = (40, 12, 25, 7, 18, 30)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    hidden = [rng.standard_normal((size, 3)) for size in FIELDS]
    for _ in range(steps):
        ids = np.stack([rng.integers(0, size, batch_size) for size in FIELDS], axis=1)
        values = np.where(rng.random(ids.shape) < 0.6, 1.0, rng.uniform(0.2, 1.8, ids.shape))
        factors = np.stack([hidden[f][ids[:, f]] for f in range(len(FIELDS))], axis=1) * values[..., None]
        pairs = 0.5 * (factors.sum(1) ** 2 - (factors ** 2).sum(1)).sum(1)
        clicks = pairs + rng.standard_normal(batch_size) > 0
        yield {
            "ids": ids.astype("int32"),
            "values": values.astype("float32"),
            "labels": np.where(clicks, 1.0, -1.0)[:, None].astype("float32"),
            "keep_fm": ((rng.random((batch_size, 12)) < 0.8) / 0.8).astype("float32"),
            "keep_deep": ((rng.random((batch_size, 20)) < 0.5) / 0.5).astype("float32"),
        }
