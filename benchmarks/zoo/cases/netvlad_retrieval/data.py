"""Tuples of point clouds: a place, two views of it turned and moved, three places much like it, and one more."""

import numpy as np

POINTS = 20


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        place = rng.uniform(-1, 1, size=(batch_size, 1, POINTS, 3)) * rng.uniform(0.3, 1.2, size=(batch_size, 1, 1, 3))
        others = place + rng.normal(0, 0.3, size=(batch_size, 4, POINTS, 3))
        angle = rng.uniform(-0.5, 0.5, size=(batch_size, 2))
        turn = np.zeros((batch_size, 2, 3, 3))
        turn[..., 0, 0] = turn[..., 1, 1] = np.cos(angle)
        turn[..., 0, 1], turn[..., 1, 0] = np.sin(angle), -np.sin(angle)
        turn[..., 2, 2] = 1.0
        views = place @ turn + rng.normal(0, 0.1, size=(batch_size, 2, POINTS, 3))
        clouds = np.concatenate([place, views, others], axis=1)
        yield {"clouds": clouds.astype("float32")}
