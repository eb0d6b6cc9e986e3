"""Point clouds: noisy samples of seven superellipsoids, stretched and moved at random."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 7, size=batch_size)
        directions = rng.standard_normal((batch_size, 20, 3))
        power = (0.6 + 0.5 * labels)[:, None, None]
        radius = (np.abs(directions) ** power).sum(-1, keepdims=True) ** (1 / power)
        points = directions / radius * rng.uniform(0.7, 1.3, size=(batch_size, 1, 3))
        points += rng.uniform(-0.2, 0.2, size=(batch_size, 1, 3)) + 0.03 * rng.standard_normal(points.shape)
        yield {"point_cloud": points.astype("float32"), "labels": labels.astype("int32")}
