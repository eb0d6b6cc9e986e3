"""Repeat-copy: a start flag, one or two words of bits, an end flag, and then room for the answer; the mask marks the answer."""

import numpy as np

BITS, WORDS = 4, 2
LENGTH = 2 * WORDS + 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        observations = np.zeros((batch_size, LENGTH, BITS + 2), "float32")
        target = np.zeros((batch_size, LENGTH, BITS), "float32")
        mask = np.zeros((batch_size, LENGTH), "float32")
        for i in range(batch_size):
            n = int(rng.integers(1, WORDS + 1))
            words = rng.integers(0, 2, (n, BITS))
            observations[i, 0, BITS] = 1
            observations[i, 1:n + 1, :BITS] = words
            observations[i, n + 1, BITS + 1] = 1
            target[i, n + 2:2 * n + 2] = words
            mask[i, n + 2:2 * n + 2] = 1
        yield {"observations": observations, "target": target, "mask": mask}
