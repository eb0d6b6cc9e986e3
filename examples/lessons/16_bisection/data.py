"""Small batches with a rule to learn."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields inputs ``[batch, 8]`` and labels ``[batch]``, 0 to 2."""
    random = np.random.RandomState(seed)
    for _ in range(steps):
        inputs = random.randn(batch_size, 8).astype(np.float32)
        labels = np.argmax(inputs[:, :3] + inputs[:, 3:6], 1)
        yield {"inputs": inputs, "labels": labels.astype(np.int32)}
