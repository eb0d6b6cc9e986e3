"""Phonemes with their durations in frames, and mel frames that follow the phoneme they belong to; 0 is padding."""

import numpy as np

VOCABULARY, PHONEMES, FRAMES, MELS = 40, 11, 26, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    prototypes = rng.standard_normal((VOCABULARY, MELS))
    for _ in range(steps):
        lengths = rng.integers(6, PHONEMES + 1, size=(batch_size, 1))
        inside = np.arange(PHONEMES)[None, :] < lengths
        phonemes = np.where(inside, rng.integers(1, VOCABULARY, size=inside.shape), 0)
        durations = np.where(inside, rng.integers(1, 5, size=inside.shape), 0)
        ends = np.minimum(np.cumsum(durations, axis=1), FRAMES)
        durations = np.diff(ends, axis=1, prepend=0)
        mels = np.zeros((batch_size, FRAMES, MELS))
        for b in range(batch_size):
            frames = prototypes[np.repeat(phonemes[b], durations[b])]
            mels[b, : len(frames)] = frames + 0.3 * rng.standard_normal(frames.shape)
        yield {
            "phonemes": phonemes.astype("int32"),
            "durations": durations.astype("int32"),
            "mels": mels.astype("float32"),
        }
