"""Log filterbank energies, not normalised, of utterances of different lengths, with a letter or silence for every second frame."""

import numpy as np

FRAMES, BANDS, LETTERS, LONGEST = 24, 12, 10, 5
SILENCE = LETTERS


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(99).standard_normal((LETTERS, BANDS)) * 5.0
    for _ in range(steps):
        frames = rng.integers(15, FRAMES + 1, size=batch_size)
        label_lengths = rng.integers(2, LONGEST + 1, size=batch_size)
        letters = rng.integers(0, LETTERS, size=(batch_size, LONGEST))
        spoken = np.minimum(np.arange(FRAMES)[None, :] * label_lengths[:, None] // frames[:, None], label_lengths[:, None] - 1)
        alignment = np.take_along_axis(letters, spoken, axis=1)
        pause = rng.random(alignment.shape) < 0.25
        energies = np.where(pause[..., None], -4.0, shapes[alignment]) + 2.0 * rng.standard_normal((batch_size, FRAMES, BANDS)) + 3.0
        energies *= (np.arange(FRAMES)[None, :] < frames[:, None])[..., None]
        targets = np.where(pause, SILENCE, alignment)[:, ::2]
        yield {
            "features": energies.astype("float32"),
            "frames": frames.astype("int32"),
            "targets": targets.astype("int32"),
        }
