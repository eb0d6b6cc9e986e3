"""Filter bank frames of made-up phonemes that last two to five frames; labels are padded with -1."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    voices = np.random.default_rng(11).standard_normal((10, 8))
    for _ in range(steps):
        features = 0.3 * rng.standard_normal((batch_size, 24, 8))
        frames = np.zeros(batch_size, int)
        labels = np.full((batch_size, 4), -1)
        for n in range(batch_size):
            count = rng.integers(2, 5)
            said = rng.integers(0, 10, size=count)
            labels[n, :count] = said
            at = rng.integers(1, 4)
            for phoneme in said:
                lasts = rng.integers(3, 6)
                features[n, at : at + lasts] += voices[phoneme]
                at += lasts
            frames[n] = np.clip(at + rng.integers(0, 4), 15, 24)
            features[n, frames[n] :] = 0
        yield {
            "features": features.astype("float32"),
            "frames": frames.astype("int32"),
            "labels": labels.astype("int32"),
        }
