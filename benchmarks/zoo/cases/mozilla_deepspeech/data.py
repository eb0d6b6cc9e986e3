"""Utterances as frames of cepstra: every character of the transcript is a short stretch of frames around its own spectrum. Padded at
the end with zeros; transcripts are padded with zeros too, and their lengths are given."""
import numpy as np

FEATURES, CHARACTERS, LONGEST, LABELS = 8, 8, 15, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    spectra = np.random.default_rng(77).normal(0, 1.2, (CHARACTERS, FEATURES))
    for _ in range(steps):
        features = np.zeros((batch_size, LONGEST, FEATURES))
        frames = np.zeros(batch_size, "int32")
        labels = np.zeros((batch_size, LABELS), "int32")
        letters = rng.integers(1, LABELS + 1, batch_size)
        for row, count in enumerate(letters):
            text = rng.integers(0, CHARACTERS, count)
            labels[row, :count] = text
            frames[row] = n = rng.integers(2 * count + 1, LONGEST + 1)
            spoken = text[np.minimum(np.arange(n) * count // n, count - 1)]
            features[row, :n] = spectra[spoken] + 0.4 * rng.standard_normal((n, FEATURES))
        yield {"features": features.astype("float32"), "seq_length": frames, "labels": labels, "label_length": letters.astype("int32")}
