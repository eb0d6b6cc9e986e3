"""The copy task: random bits of some length, a mark, and then silence in which they are to be repeated."""

import numpy as np

BITS = 5
LONGEST = 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        lengths = rng.integers(2, LONGEST + 1, size=batch_size)
        there = (np.arange(LONGEST)[None, :] < lengths[:, None]).astype(float)
        bits = (rng.random((batch_size, LONGEST, BITS)) < 0.5) * there[:, :, None]
        inputs = np.zeros((batch_size, 2 * LONGEST + 1, BITS + 1))
        inputs[:, :LONGEST, :BITS] = bits
        inputs[np.arange(batch_size), lengths, BITS] = 1.0
        yield {
            "inputs": inputs.astype("float32"),
            "targets": bits.astype("float32"),
            "mask": there.astype("float32"),
        }
