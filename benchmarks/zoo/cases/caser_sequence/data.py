"""Users who walk along a ring of items: the last five (0 where there were fewer), the next two, and sampled others."""

import numpy as np

USERS, ITEMS, LENGTH, TARGETS, NEGATIVES = 24, 40, 5, 2, 4
KEEP = 0.75


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        users = rng.integers(0, USERS, size=batch_size)
        walk = 1 + users[:, None] + np.cumsum(rng.integers(1, 4, size=(batch_size, LENGTH + TARGETS)), axis=1)
        walk = walk % (ITEMS - 1) + 1
        known = rng.integers(2, LENGTH + 1, size=(batch_size, 1))
        history = np.where(np.arange(LENGTH)[None] >= LENGTH - known, walk[:, :LENGTH], 0)
        negatives = rng.integers(1, ITEMS, size=(batch_size, NEGATIVES))
        keep = (rng.random((batch_size, 36)) < KEEP) / KEEP
        yield {
            "users": users.astype("int32"),
            "history": history.astype("int32"),
            "positives": walk[:, LENGTH:].astype("int32"),
            "negatives": negatives.astype("int32"),
            "keep": keep.astype("float32"),
        }
