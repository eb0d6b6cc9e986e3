"""Windows of positive series with trend and season; masks are 0 where a series has not begun, or has ended."""

import numpy as np

HISTORY, HORIZON = 15, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(HISTORY + HORIZON)
    for _ in range(steps):
        level = rng.uniform(1.0, 4.0, size=(batch_size, 1))
        slope = rng.normal(0, 0.03, size=(batch_size, 1))
        phase = rng.uniform(0, 2 * np.pi, size=(batch_size, 1))
        season = 0.3 * np.sin(2 * np.pi * time / HORIZON + phase)
        series = level * (1 + slope * time + season) + 0.1 * rng.standard_normal((batch_size, len(time)))
        series = np.maximum(series, 0.1)
        begins = rng.integers(0, 6, size=(batch_size, 1))
        ends = HISTORY + rng.integers(4, HORIZON + 1, size=(batch_size, 1))
        mask = ((time >= begins) & (time < ends)).astype("float32")
        series = series.astype("float32") * mask
        yield {
            "x": series[:, :HISTORY],
            "x_mask": mask[:, :HISTORY],
            "y": series[:, HISTORY:],
            "y_mask": mask[:, HISTORY:],
        }
