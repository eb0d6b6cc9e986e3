"""Small colour pictures: two blobs of different width whose distance and tint depend on the class."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:16, 0:16]
    tints = np.random.default_rng(7).uniform(-1, 1, size=(10, 2, 3))
    for _ in range(steps):
        label = rng.integers(0, 10, size=batch_size)
        image = 0.3 * rng.standard_normal((batch_size, 16, 16, 3))
        for blob, width in enumerate((1.5, 3.5)):
            y = rng.uniform(3, 13, size=(batch_size, 1, 1))
            x = rng.uniform(3, 13, size=(batch_size, 1, 1)) + 0.2 * label[:, None, None] * blob
            bump = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / (2 * width**2))
            image += bump[..., None] * tints[label, blob][:, None, None, :]
        yield {"features": image.astype("float32"), "label": label.astype("int32")}
