"""Words, some of them several times in a shard and some never, and what is to be made of them."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: words int32 ``[batch, 2]`` below 10, and targets float32 ``[batch, 3]``."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        words = random.integers(0, 10, (batch_size, 2)).astype("int32")
        yield {"words": words, "targets": random.standard_normal((batch_size, 3)).astype("float32")}
