"""Utterances of a few sounds in noise, each sound some frames long; the transcript ends with </s>, padding is 0."""

import numpy as np

FRAMES, MELS, CHARACTERS, SYMBOLS = 16, 6, 6, 14
SOS, EOS = 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    sounds = rng.standard_normal((SYMBOLS, MELS))
    for _ in range(steps):
        features = np.zeros((batch_size, FRAMES, MELS))
        lengths = np.zeros(batch_size)
        targets = np.zeros((batch_size, CHARACTERS))
        weights = np.zeros((batch_size, CHARACTERS))
        for example in range(batch_size):
            count = rng.integers(2, CHARACTERS)
            symbols = rng.integers(3, SYMBOLS, size=count)
            frames = np.repeat(symbols, rng.integers(2, 4, size=count))
            length = len(frames) + rng.integers(0, FRAMES - len(frames) + 1) // 2
            spoken = np.concatenate([sounds[frames], np.zeros((length - len(frames), MELS))])
            features[example, :length] = spoken + 0.3 * rng.standard_normal((length, MELS))
            lengths[example] = length
            targets[example, : count + 1] = [*symbols, EOS]
            weights[example, : count + 1] = 1.0
        yield {
            "features": features.astype("float32"),
            "lengths": lengths.astype("int32"),
            "targets": targets.astype("int32"),
            "weights": weights.astype("float32"),
        }
