"""Grey pictures of strokes, ten classes, as bytes would give them, with the noise and the classes to draw fakes from."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] - 7.5
    for _ in range(steps):
        labels = rng.integers(0, 10, size=batch_size)
        angle = (labels * np.pi / 10)[:, None, None]
        offset = rng.uniform(-3, 3, (batch_size, 1, 1))
        distance = np.abs(x * np.cos(angle) + y * np.sin(angle) - offset)
        images = 255 * np.clip(1.6 - 0.6 * distance, 0, 1) * rng.uniform(0.7, 1.0, (batch_size, 1, 1))
        yield {
            "images": np.round(np.clip(images + rng.uniform(0, 20, images.shape), 0, 255))[..., None].astype("float32"),
            "labels": labels.astype("int32"),
            "noise": rng.uniform(-1, 1, (batch_size, 16)).astype("float32"),
            "sampled_labels": rng.integers(0, 10, size=batch_size).astype("int32"),
        }
