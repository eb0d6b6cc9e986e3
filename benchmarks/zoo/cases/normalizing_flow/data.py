"""Six-dimensional points: two moons, a ring and a noisy product of them."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        t = rng.uniform(0, np.pi, batch_size)
        moon = rng.integers(0, 2, batch_size)
        x0 = np.where(moon == 0, np.cos(t), 1 - np.cos(t))
        x1 = np.where(moon == 0, np.sin(t), 0.5 - np.sin(t))
        a = rng.uniform(0, 2 * np.pi, batch_size)
        r = 1 + 0.1 * rng.standard_normal(batch_size)
        x = np.stack([x0, x1, r * np.cos(a), r * np.sin(a), x0 * r, x1 - r], 1) + 0.05 * rng.standard_normal((batch_size, 6))
        y = moon
        yield {"x": x.astype("float32"), "y": y.astype("int32")}
