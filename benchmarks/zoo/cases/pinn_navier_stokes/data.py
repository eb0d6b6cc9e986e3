"""Velocities of a drifting, decaying row of vortices, measured with noise at scattered points of space and time."""
import numpy as np

LOWER, UPPER = np.array([1.0, -2.0, 0.0]), np.array([8.0, 2.0, 20.0])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x, y, t = (LOWER + (UPPER - LOWER) * rng.random((batch_size, 3))).T
        decay = np.exp(-0.02 * t)
        u = 0.8 - decay * np.cos(0.9 * (x - 0.8 * t)) * np.sin(0.9 * y)
        v = decay * np.sin(0.9 * (x - 0.8 * t)) * np.cos(0.9 * y)
        u, v = u + rng.normal(0, 0.01, batch_size), v + rng.normal(0, 0.01, batch_size)
        yield {name: column[:, None].astype("float32") for name, column in zip("xytuv", (x, y, t, u, v))}
