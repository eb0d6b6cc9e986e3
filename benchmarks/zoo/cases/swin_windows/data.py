"""Small pictures of stripes: the class is their direction, colour, width and phase are free."""
import numpy as np

SIZE, CLASSES = 16, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        angle = np.pi * (labels + rng.uniform(-0.2, 0.2, batch_size)) / CLASSES
        along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
        width = rng.uniform(1.5, 3.0, (batch_size, 1, 1))
        phase = rng.uniform(0, 2 * np.pi, (batch_size, 1, 1))
        stripes = np.sin(2 * np.pi * width * along + phase)[..., None] * rng.uniform(0.4, 1.2, (batch_size, 1, 1, 3))
        images = stripes + 0.25 * rng.standard_normal((batch_size, SIZE, SIZE, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
