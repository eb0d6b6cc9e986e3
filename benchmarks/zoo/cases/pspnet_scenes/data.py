"""Scenes of rectangles on a striped ground: colour says the class, the outlines belong to none (255)."""

import numpy as np

HEIGHT, WIDTH, CLASSES, IGNORED = 24, 48, 7, 255


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    palette = rng.uniform(-1.0, 1.0, size=(CLASSES, 3))
    for _ in range(steps):
        labels = np.zeros((batch_size, HEIGHT, WIDTH), "int32")
        for picture in labels:
            picture[rng.integers(8, 16) :] = 1
            for _ in range(5):
                top, left = rng.integers(0, HEIGHT - 8), rng.integers(0, WIDTH - 10)
                bottom, right = top + rng.integers(6, 12), left + rng.integers(6, 16)
                picture[top:bottom, left:right] = IGNORED
                picture[top + 1 : bottom - 1, left + 1 : right - 1] = rng.integers(2, CLASSES)
        colours = palette[np.where(labels == IGNORED, 0, labels)]
        shade = rng.uniform(0.6, 1.4, size=(batch_size, 1, 1, 1))
        images = colours * shade + 0.3 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        yield {"images": images.astype("float32"), "labels": labels}
