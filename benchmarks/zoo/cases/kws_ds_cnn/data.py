"""Cepstra of short commands: every word is a few gliding formants, at its own speed, loudness and onset, in noise."""
import numpy as np

FRAMES, CEPSTRA, WORDS = 25, 10, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(77).normal(0, 1, (WORDS, 3, CEPSTRA))
    t = np.linspace(0, 1, FRAMES)
    for _ in range(steps):
        label = rng.integers(0, WORDS, batch_size)
        fingerprint = rng.normal(0, 0.4, (batch_size, FRAMES, CEPSTRA))
        for b in range(batch_size):
            onset, length = rng.uniform(0, 0.3), rng.uniform(0.5, 0.7)
            if label[b] > 0:  # 0 is silence
                for k, shape in enumerate(words[label[b]]):
                    centre = onset + length * (k + 0.5) / 3
                    fingerprint[b] += rng.uniform(1, 2) * np.exp(-((t - centre) / 0.1) ** 2)[:, None] * shape
        fingerprint[..., 0] = 3 * fingerprint[..., 0] - 4
        yield {"fingerprint": fingerprint.reshape(batch_size, -1).astype("float32"), "label": label.astype("int32")}
