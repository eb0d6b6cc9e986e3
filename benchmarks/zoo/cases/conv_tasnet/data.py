"""Mixtures of three decaying tones of different pitch, of varying length, padded with zeros."""

import numpy as np

SAMPLES = 64
SPEAKERS = 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(SAMPLES)
    for _ in range(steps):
        pitch = rng.uniform(0.1, 1.4, size=(batch_size, SPEAKERS, 1))
        phase = rng.uniform(0, 2 * np.pi, size=(batch_size, SPEAKERS, 1))
        level = rng.uniform(0.3, 1.0, size=(batch_size, SPEAKERS, 1))
        decay = rng.uniform(0.0, 0.04, size=(batch_size, SPEAKERS, 1))
        sources = level * np.exp(-decay * time) * np.sin(pitch * time + phase)
        sources = sources + 0.05 * rng.standard_normal(sources.shape)
        lengths = rng.integers(SAMPLES // 2, SAMPLES + 1, size=batch_size)
        lengths[0] = SAMPLES
        sources = sources * (time < lengths[:, None])[:, None]
        yield {
            "mixture": sources.sum(1).astype("float32"),
            "sources": sources.astype("float32"),
            "lengths": lengths.astype("int32"),
        }
