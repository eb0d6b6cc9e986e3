"""Small two-channel pictures, higher than wide: a blob with a tail; the class is the quarter that the tail points to."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:12, 0:10]
    for _ in range(steps):
        labels = rng.integers(0, 4, size=batch_size)
        cy = rng.uniform(4, 8, (batch_size, 1, 1))
        cx = rng.uniform(3, 7, (batch_size, 1, 1))
        angle = labels[:, None, None] * np.pi / 2 + rng.uniform(-0.5, 0.5, (batch_size, 1, 1))
        blob = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 3)
        tail = np.exp(-((y - cy - 3 * np.sin(angle)) ** 2 + (x - cx - 3 * np.cos(angle)) ** 2) / 4)
        images = np.stack([blob, tail], axis=-1) + 0.2 * rng.standard_normal((batch_size, 12, 10, 2))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
