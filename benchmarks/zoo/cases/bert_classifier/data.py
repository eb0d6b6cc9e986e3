"""Short token sequences with padding at the end; the class is the most frequent of four marker tokens."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        lengths = rng.integers(4, 13, size=batch_size)
        ids = rng.integers(5, 120, size=(batch_size, 12))
        labels = rng.integers(0, 4, size=batch_size)
        marked = rng.random(ids.shape) < 0.3
        ids = np.where(marked, 1 + labels[:, None], ids)
        mask = np.arange(12)[None, :] < lengths[:, None]
        yield {
            "input_ids": np.where(mask, ids, 0).astype("int32"),
            "input_mask": mask.astype("float32"),
            "label_ids": labels.astype("int32"),
        }
