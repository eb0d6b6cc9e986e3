"""Two tones and some noise, mu-law coded to 32 levels."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(41) / 41.0
    for _ in range(steps):
        tone = rng.uniform(1, 9, size=(batch_size, 2, 1))
        wave = (np.sin(2 * np.pi * tone * t + rng.uniform(0, 6, (batch_size, 2, 1))) * [[0.5], [0.3]]).sum(1)
        wave = np.clip(wave + 0.05 * rng.standard_normal(wave.shape), -1, 1)
        coded = np.sign(wave) * np.log1p(31 * np.abs(wave)) / np.log1p(31)
        levels = ((coded + 1) / 2 * 31 + 0.5).astype("int32")
        yield {"audio": np.eye(32, dtype="float32")[levels]}
