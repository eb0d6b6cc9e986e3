"""Log filterbank chunks: each speaker has a spectral profile that is modulated in time, each recording its own channel."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    profiles = rng.standard_normal((12, 20))
    rates = rng.uniform(0.1, 0.9, size=12)
    time = np.arange(32)[None, :, None]
    for _ in range(steps):
        speakers = rng.integers(0, 12, size=batch_size)
        phase = rng.uniform(0, 6, size=(batch_size, 1, 20))
        voice = np.sin(rates[speakers][:, None, None] * time + phase) * profiles[speakers][:, None, :]
        channel = 1.0 + rng.standard_normal((batch_size, 1, 20))
        features = voice + channel + 0.4 * rng.standard_normal((batch_size, 32, 20))
        yield {"features": features.astype("float32"), "speakers": speakers.astype("int32")}
