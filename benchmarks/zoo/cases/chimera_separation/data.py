"""Spectrograms of two speakers who talk at once: magnitudes of the mixture and of both sources, who is louder where, and where
anybody is heard at all."""
import numpy as np

FRAMES, BINS = 10, 9


def speaker(rng, count):
    t, f = np.arange(FRAMES)[:, None], np.arange(BINS)[None, :]
    pitch = rng.uniform(1.5, 4.0, (count, 1, 1)) + 0.4 * np.sin(t / 3 + rng.uniform(0, 6, (count, 1, 1)))
    voice = np.exp(2.5 * np.cos(2 * np.pi * f / pitch) - 2.5 - 0.1 * f)
    envelope = np.clip(np.sin(t / rng.uniform(1.5, 4, (count, 1, 1)) + rng.uniform(0, 6, (count, 1, 1))) + 0.6, 0, None)
    return rng.uniform(0.5, 2.0, (count, 1, 1)) * voice * envelope + 0.02 * rng.random((count, FRAMES, BINS))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        sources = np.stack([speaker(rng, batch_size), speaker(rng, batch_size)], axis=-1)
        mixture = sources.sum(-1) + 0.01 * rng.random((batch_size, FRAMES, BINS))
        louder = sources.argmax(-1)
        vad = mixture > 0.06 * mixture.max(axis=(1, 2), keepdims=True)
        yield {"mixture": mixture.astype("float32"), "sources": sources.astype("float32"),
               "Y": np.eye(2, dtype="float32")[louder], "VAD": vad.astype("float32")}
