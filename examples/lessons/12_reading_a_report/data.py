"""Small batches with a rule to learn."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields inputs ``[batch, 6]`` and labels ``[batch]``, 0 to 2."""
    random = np.random.RandomState(seed)
    for _ in range(steps):
        inputs = random.randn(batch_size, 6).astype(np.float32)
        yield {"inputs": inputs, "labels": np.argmax(inputs[:, :3] + inputs[:, 3:], 1).astype(np.int32)}
