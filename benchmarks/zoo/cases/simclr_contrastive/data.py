"""Two augmented views of small pictures, stacked along the channels: six of them, three per view."""

import numpy as np


def augment(rng, images):
    shift = rng.integers(-1, 2, size=len(images))
    moved = np.stack([np.roll(image, s, axis=1) for image, s in zip(images, shift)])
    contrast = rng.uniform(0.6, 1.4, size=(len(images), 1, 1, 1))
    tint = rng.uniform(-0.2, 0.2, size=(len(images), 1, 1, 3))
    return moved * contrast + tint + 0.1 * rng.standard_normal(images.shape)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:10, 0:12] / 10.0
    for _ in range(steps):
        angle = rng.uniform(0, np.pi, size=(batch_size, 1, 1, 1))
        wave = np.sin(9 * (x[..., None] * np.cos(angle) + y[..., None] * np.sin(angle)))
        images = wave * rng.uniform(0.2, 1.0, size=(batch_size, 1, 1, 3)) + 0.4
        views = np.concatenate([augment(rng, images), augment(rng, images)], axis=-1)
        yield {"features": views.astype("float32")}
