"""Users with several interests, each a group of neighbouring items; item 0 is padding. Every user brings sampled items along, drawn
by rank, none of them twice."""
import numpy as np

ITEMS, LONGEST, NEGATIVES = 121, 8, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    p = np.log1p(1 / (np.arange(ITEMS) + 1.0)) / np.log(ITEMS + 1.0)
    p /= p.sum()
    for _ in range(steps):
        history = np.zeros((batch_size, LONGEST), "int32")
        mask = np.zeros((batch_size, LONGEST), "float32")
        target = np.zeros(batch_size, "int32")
        for i in range(batch_size):
            groups = rng.choice(6, size=rng.integers(1, 4), replace=False)
            n = int(rng.integers(3, LONGEST + 1))
            clicks = 1 + 20 * rng.choice(groups, n + 1) + rng.integers(0, 20, n + 1)
            history[i, :n], target[i], mask[i, :n] = clicks[:n], clicks[n], 1
        sampled = rng.choice(ITEMS, size=(batch_size, NEGATIVES), replace=False, p=p).astype("int32")
        yield {"item_his": history, "mask": mask, "item": target, "sampled": sampled}
