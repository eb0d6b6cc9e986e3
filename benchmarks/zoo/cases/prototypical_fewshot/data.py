"""Strokes as characters: a row is a class with two support and three query pictures of it, shifted and noisy."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        pictures = np.zeros((batch_size, 5, 16, 16))
        for way in range(batch_size):
            strokes = [(rng.uniform(3, 12, 2), rng.uniform(3, 12, 2)) for _ in range(3)]
            for shot in range(5):
                shift = rng.integers(-1, 2, size=2)
                for start, end in strokes:
                    line = start + np.linspace(0, 1, 24)[:, None] * (end - start) + shift
                    row, column = np.clip(np.rint(line).astype(int), 0, 15).T
                    pictures[way, shot, row, column] = 1.0
        pictures += 0.1 * rng.standard_normal(pictures.shape)
        pictures = pictures[..., None].astype("float32")
        yield {"support": pictures[:, :2], "query": pictures[:, 2:]}
