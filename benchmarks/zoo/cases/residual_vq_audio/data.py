"""Short pieces of two decaying partials, with a little noise."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(64) / 64.0
    for _ in range(steps):
        f = rng.uniform(2, 10, size=(batch_size, 1))
        phase = rng.uniform(0, 2 * np.pi, size=(2, batch_size, 1))
        decay = np.exp(-t * rng.uniform(0, 3, size=(batch_size, 1)))
        wave = np.sin(2 * np.pi * f * t + phase[0]) + 0.5 * np.sin(2 * np.pi * 2 * f * t + phase[1])
        wave = wave * decay * rng.uniform(0.3, 1.0, size=(batch_size, 1)) + 0.02 * rng.standard_normal((batch_size, 64))
        yield {"waves": wave[:, :, None].astype("float32")}
