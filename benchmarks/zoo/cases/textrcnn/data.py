"""Short texts of four topics with their lengths; keep is dropout's mask, 0 or one over the probability of keeping."""

import numpy as np

KEEP_PROB = 0.5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        topics = rng.integers(0, 4, size=batch_size)
        lengths = rng.integers(4, 13, size=batch_size)
        lengths[::4] = 12
        common = rng.integers(1, 21, size=(batch_size, 12))
        topical = 21 + 10 * topics[:, None] + rng.integers(0, 10, size=(batch_size, 12))
        words = np.where(rng.random((batch_size, 12)) < 0.4, topical, common)
        words = np.where(np.arange(12)[None, :] < lengths[:, None], words, 0)
        yield {
            "input_text": words.astype("int32"),
            "lengths": lengths.astype("int32"),
            "input_y": np.eye(4)[topics].astype("float32"),
            "keep": ((rng.random((batch_size, 20)) < KEEP_PROB) / KEEP_PROB).astype("float32"),
        }
