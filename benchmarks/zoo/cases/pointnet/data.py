"""Point clouds of spheres, cubes, cylinders and planes, turned about the upright axis, and a little noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 4, size=batch_size)
        clouds = []
        for label in labels:
            p = rng.standard_normal((32, 3))
            if label == 0:
                p /= np.linalg.norm(p, axis=1, keepdims=True)
            elif label == 1:
                p /= np.abs(p).max(axis=1, keepdims=True)
            elif label == 2:
                p[:, :2] /= np.linalg.norm(p[:, :2], axis=1, keepdims=True)
                p[:, 2] = np.clip(p[:, 2], -1, 1)
            else:
                p[:, 2] = 0.3 * p[:, 0]
            a = rng.uniform(0, 2 * np.pi)
            turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
            clouds.append(p @ turn.T + 0.02 * rng.standard_normal((32, 3)))
        yield {"pointclouds": np.asarray(clouds, "float32"), "labels": labels.astype("int32")}
