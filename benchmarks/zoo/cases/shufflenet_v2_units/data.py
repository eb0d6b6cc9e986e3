"""Textures in [0, 1] of eight classes: noise smoothed along one of four directions, bright or dark on the left."""
import numpy as np

HEIGHT, WIDTH, CLASSES = 32, 28, 8
DIRECTIONS = [(0, 1), (1, 0), (1, 1), (1, -1)]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        images = rng.random((batch_size, HEIGHT, WIDTH, 3))
        for i, label in enumerate(labels):
            dy, dx = DIRECTIONS[label % 4]
            images[i] = sum(np.roll(images[i], (k * dy, k * dx), (0, 1)) for k in range(4)) / 4
            slope = np.linspace(0.25, -0.25, WIDTH) * (1 if label < 4 else -1)
            images[i] += slope[None, :, None]
        yield {"images": np.clip(images, 0, 1).astype("float32"), "labels": labels.astype("int32")}
