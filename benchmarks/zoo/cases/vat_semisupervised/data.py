"""Coloured stripes in five directions, some with labels, as many without; and the random directions that perturbations begin with,
which both sides have to have alike."""

import numpy as np

CLASSES, SIZE = 5, 10


def stripes(rng, labels):
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    angle = np.pi * labels / CLASSES + 0.1 * rng.standard_normal(len(labels))
    phase = rng.uniform(0, 2 * np.pi, len(labels))
    wave = np.cos((np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y) * 1.6 + phase[:, None, None])
    colour = rng.uniform(0.3, 1.2, (len(labels), 1, 1, 3))
    return (wave[..., None] * colour + 0.3 * rng.standard_normal((len(labels), SIZE, SIZE, 3))).astype("float32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        yield {
            "images": stripes(rng, labels),
            "labels": labels.astype("int32"),
            "unlabeled": stripes(rng, rng.integers(0, CLASSES, batch_size)),
            "noise": rng.standard_normal((batch_size, SIZE, SIZE, 3)).astype("float32"),
        }
