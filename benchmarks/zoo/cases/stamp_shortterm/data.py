"""Click sessions of different lengths, padded behind with item 0: the clicks so far, the last one, and the next one to be ranked."""
import numpy as np

ITEMS, LONGEST = 50, 8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    shelves = rng.permutation(np.arange(1, ITEMS + 1)).reshape(5, -1)
    for _ in range(steps):
        clicks = np.zeros((batch_size, LONGEST), "int32")
        lengths = rng.integers(1, LONGEST + 1, batch_size)
        last = np.zeros(batch_size, "int32")
        target = np.zeros(batch_size, "int32")
        for i, n in enumerate(lengths):
            shelf = shelves[rng.integers(5)]
            path = np.where(rng.random(n + 1) < 0.8, rng.choice(shelf, n + 1), rng.integers(1, ITEMS + 1, n + 1))
            clicks[i, :n], last[i], target[i] = path[:n], path[n - 1], path[n] - 1
        bitmap = (np.arange(LONGEST) < lengths[:, None]).astype("float32")
        yield {"inputs": clicks, "last_inputs": last, "bitmap": bitmap, "lab_input": target}
