"""Speeds at eleven stations of a road, standardised: waves that travel along it, and noise. Twelve readings and the one to predict."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(13)[None, :, None]
    station = np.arange(11)[None, None, :]
    for _ in range(steps):
        speed = rng.uniform(0.2, 0.9, size=(batch_size, 1, 1))
        wave = rng.uniform(0.3, 1.2, size=(batch_size, 1, 1))
        phase = rng.uniform(0, 6, size=(batch_size, 1, 1))
        x = np.sin(speed * time - wave * station + phase) + 0.4 * np.cos(0.2 * time + phase)
        x = x + 0.3 * rng.standard_normal(x.shape)
        yield {"x": x[..., None].astype("float32")}
