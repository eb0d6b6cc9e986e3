"""Pictures of a disc and a bar on noise; labels 0 to 2, and 255 on the rim of the disc."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        cy, cx = rng.uniform(4, 12, size=(2, batch_size, 1, 1))
        radius = rng.uniform(2, 5, size=(batch_size, 1, 1))
        at = rng.integers(1, 13, size=(batch_size, 1, 1))
        distance = np.hypot(y - cy, x - cx)
        bar = (y[None] >= at) & (y[None] < at + 2)
        labels = np.where(distance < radius, 1, np.where(bar, 2, 0))
        images = (labels == 1) * 1.0 - (labels == 2) * 0.7 + 0.4 * rng.standard_normal(labels.shape)
        labels = np.where(abs(distance - radius) < 0.5, 255, labels)
        yield {"images": images[..., None].astype("float32"), "labels": labels.astype("int32")}
