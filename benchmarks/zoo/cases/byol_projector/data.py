"""Two augmented views of small coloured blobs: shifted, flipped, and with other brightness."""

import numpy as np


def _view(rng, images):
    out = np.empty_like(images)
    for i, image in enumerate(images):
        image = np.roll(image, tuple(rng.integers(-2, 3, size=2)), axis=(0, 1))
        if rng.random() < 0.5:
            image = image[:, ::-1]
        out[i] = image * rng.uniform(0.6, 1.4) + rng.normal(0.0, 0.1)
    return out + 0.05 * rng.standard_normal(out.shape)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:10, 0:10]
    for _ in range(steps):
        centre = rng.uniform(2, 8, size=(batch_size, 2, 1, 1))
        width = rng.uniform(1.0, 3.0, size=(batch_size, 1, 1))
        blob = np.exp(-((y - centre[:, 0]) ** 2 + (x - centre[:, 1]) ** 2) / (2 * width**2))
        images = blob[..., None] * rng.uniform(-1.0, 1.5, size=(batch_size, 1, 1, 3))
        yield {"view1": _view(rng, images).astype("float32"), "view2": _view(rng, images).astype("float32")}
