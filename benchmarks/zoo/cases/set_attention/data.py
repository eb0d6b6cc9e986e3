"""Sets of noisy prototypes with padding; how many different ones are in a set is to be counted, and what they weigh summed up."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    prototypes = rng.standard_normal((7, 6))
    for _ in range(steps):
        sizes = rng.integers(3, 11, size=batch_size)
        kinds = rng.integers(0, 7, size=(batch_size, 10))
        mask = np.arange(10)[None, :] < sizes[:, None]
        elements = prototypes[kinds] + 0.2 * rng.standard_normal((batch_size, 10, 6))
        # what stands in the padding is left over from a larger buffer
        counts = np.array([len(set(row[m])) for row, m in zip(kinds, mask)])
        yield {
            "elements": elements.astype("float32"),
            "mask": mask.astype("float32"),
            "counts": counts.astype("float32"),
        }
