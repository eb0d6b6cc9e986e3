"""Scenes of coloured rectangles on a background; their outlines are labelled 255, which does not count."""

import numpy as np

HEIGHT, WIDTH, CLASSES, IGNORED = 24, 20, 7, 255


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    colours = rng.uniform(-1, 1, size=(CLASSES, 3))
    for _ in range(steps):
        labels = np.zeros((batch_size, HEIGHT, WIDTH), "int32")
        images = np.zeros((batch_size, HEIGHT, WIDTH, 3))
        for n in range(batch_size):
            images[n] = colours[0]
            for _ in range(rng.integers(2, 5)):
                kind = rng.integers(1, CLASSES)
                top, left = rng.integers(0, HEIGHT - 8), rng.integers(0, WIDTH - 8)
                bottom, right = top + rng.integers(6, 12), left + rng.integers(6, 12)
                labels[n, top:bottom, left:right] = IGNORED
                labels[n, top + 1 : bottom - 1, left + 1 : right - 1] = kind
                images[n, top:bottom, left:right] = colours[kind]
        images += 0.3 * rng.standard_normal(images.shape)
        yield {"images": images.astype("float32"), "labels": labels}
