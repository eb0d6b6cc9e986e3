"""Short strings of symbols; the targets are each string sorted. 0 is padding."""
import numpy as np

SYMBOLS, LENGTH = 18, 9


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        inputs = np.zeros((batch_size, LENGTH), "int32")
        targets = np.zeros((batch_size, LENGTH), "int32")
        for b in range(batch_size):
            n = rng.integers(3, LENGTH + 1)
            inputs[b, :n] = 1 + np.minimum(rng.geometric(0.15, n) - 1, SYMBOLS - 2)
            targets[b, :n] = np.sort(inputs[b, :n])
        weights = (targets != 0).astype("float32")
        yield {"inputs": inputs, "targets": targets, "weights": weights}
