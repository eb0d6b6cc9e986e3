"""Small colour images of blobs; the class is where the blob sits and which way it leans."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:12, 0:12] / 12.0
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        cx = 0.2 + 0.3 * (labels % 3)[:, None, None]
        cy = 0.3 + 0.4 * (labels // 3)[:, None, None]
        lean = 1.5 * (labels % 2)[:, None, None] - 0.5
        dx, dy = x - cx, y - cy
        blob = np.exp(-20 * (dx + lean * dy) ** 2 - 12 * dy ** 2)
        tint = rng.uniform(0.4, 1.2, size=(batch_size, 1, 1, 3))
        images = blob[..., None] * tint + 0.3 * rng.standard_normal((batch_size, 12, 12, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
