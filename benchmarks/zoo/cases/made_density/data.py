"""Vectors whose elements follow from those before, in one of two ways, with a class that moves their mean."""

import numpy as np

DIMENSIONS = 7
CLASSES = 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.normal(0, 0.6, size=(DIMENSIONS, DIMENSIONS)), -1)
    centres = rng.normal(0, 1, size=(CLASSES, DIMENSIONS))
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, size=batch_size)
        x = np.zeros((batch_size, DIMENSIONS))
        for i in range(DIMENSIONS):
            side = rng.choice([-1.0, 1.0], size=batch_size)
            x[:, i] = centres[labels, i] + x @ lower[i] + side + 0.3 * rng.standard_normal(batch_size)
        yield {"x": x.astype("float32"), "labels": labels.astype("int32")}
