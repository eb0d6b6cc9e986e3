"""Cluttered digits: seven-segment strokes at a random place of a larger canvas, with specks around them."""

import numpy as np

SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abfgcd"]
STROKES = {"a": (0, slice(0, 6)), "g": (5, slice(0, 6)), "d": (10, slice(0, 6)),
           "f": (slice(0, 6), 0), "b": (slice(0, 6), 5), "e": (slice(5, 11), 0), "c": (slice(5, 11), 5)}


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 10, size=batch_size)
        images = np.zeros((batch_size, 24, 24))
        for image, label in zip(images, labels):
            row, column = rng.integers(1, 12), rng.integers(1, 16)
            digit = image[row:row + 11, column:column + 6]
            for segment in SEGMENTS[label]:
                digit[STROKES[segment]] = 1.0
            specks = rng.integers(0, 24, size=(12, 2))
            image[specks[:, 0], specks[:, 1]] = 1.0
        images += 0.1 * rng.standard_normal(images.shape)
        yield {"images": images.reshape(batch_size, 576).astype("float32"), "labels": labels.astype("int32")}
