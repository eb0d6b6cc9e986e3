"""Texts whose characters each last some frames of their own tone: what a speech synthesiser learns from, in small."""

import numpy as np

CHARACTERS = 24
TEXT = 9
FRAMES = 12
MELS = 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    tones = rng.uniform(-2, 2, size=(CHARACTERS, MELS))
    for _ in range(steps):
        text_lengths = rng.integers(4, TEXT + 1, size=batch_size)
        text = rng.integers(1, CHARACTERS, size=(batch_size, TEXT)) * (np.arange(TEXT) < text_lengths[:, None])
        mel_lengths = np.minimum(FRAMES, text_lengths + rng.integers(1, 4, size=batch_size))
        frames = np.arange(FRAMES)
        spoken = (frames[None, :] * text_lengths[:, None] // mel_lengths[:, None]).clip(0, TEXT - 1)
        mels = tones[np.take_along_axis(text, spoken, axis=1)] + 0.2 * rng.standard_normal((batch_size, FRAMES, MELS))
        mels[frames[None, :] >= mel_lengths[:, None]] = -4.0  # silence
        yield {
            "text": text.astype("int32"),
            "text_lengths": text_lengths.astype("int32"),
            "mels": mels.astype("float32"),
            "mel_lengths": mel_lengths.astype("int32"),
        }
