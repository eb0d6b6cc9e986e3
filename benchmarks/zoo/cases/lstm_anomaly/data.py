"""Sensor readings of machines: a few harmonics per channel, of different lengths, zeros behind the end."""

import numpy as np

STEPS, CHANNELS = 12, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        speed = rng.uniform(0.3, 0.8, size=(batch_size, 1, 1))
        phase = rng.uniform(0, 2 * np.pi, size=(batch_size, 1, CHANNELS))
        time = np.arange(STEPS)[None, :, None]
        readings = np.sin(speed * time + phase) + 0.3 * np.sin(3 * speed * time) + 0.1 * rng.standard_normal((batch_size, STEPS, CHANNELS))
        lengths = rng.integers(6, STEPS + 1, size=batch_size)
        readings *= (np.arange(STEPS)[None, :] < lengths[:, None])[..., None]
        yield {"readings": readings.astype("float32"), "lengths": lengths.astype("int32")}
