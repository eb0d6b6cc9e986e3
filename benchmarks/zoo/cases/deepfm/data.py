"""Clicks: five categorical fields as raw ids of any size, two numbers; some crossings of fields matter."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([5, 30, 400, 3000, 12])
    for _ in range(steps):
        ids = (rng.pareto(1.0, size=(batch_size, 5)) * sizes / 6).astype("int64") % sizes
        numbers = rng.gamma(2.0, 0.5, size=(batch_size, 2))
        score = np.sin(ids[:, 0] * 1.3) + ((ids[:, 1] + ids[:, 4]) % 3 - 1) + 0.5 * numbers[:, 0] - 0.7
        click = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        yield {"ids": ids, "numbers": numbers.astype("float32"), "label": click[:, None].astype("float32")}
