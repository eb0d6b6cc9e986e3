"""Windows of several hourly series with a daily rhythm, scaled to [0, 1], with the scale of each series."""

import numpy as np

WINDOW, SERIES, PERIOD = 24, 6, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    level = np.random.default_rng(7).uniform(0.3, 0.7, SERIES)
    scale = np.random.default_rng(8).uniform(0.5, 3.0, SERIES)
    for _ in range(steps):
        start = rng.uniform(0, PERIOD, size=(batch_size, 1, 1))
        phase = rng.uniform(0, 2 * np.pi, size=(batch_size, 1, SERIES))
        time = start + np.arange(WINDOW + 1)[None, :, None]
        series = level + 0.2 * np.sin(2 * np.pi * time / PERIOD + phase) + 0.05 * rng.standard_normal((batch_size, WINDOW + 1, SERIES))
        yield {
            "history": series[:, :-1].astype("float32"),
            "target": series[:, -1].astype("float32"),
            "scale": np.broadcast_to(scale, (batch_size, SERIES)).astype("float32"),
        }
