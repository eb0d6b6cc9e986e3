"""Utterances of one to four phones: frames around the spectrum of each, of various durations. Phone 0 is the blank."""
import numpy as np

PHONES, FEATURES, FRAMES, LABELS = 9, 8, 12, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    spectra = np.random.default_rng(5).normal(0, 1.2, (PHONES, FEATURES))
    for _ in range(steps):
        features = np.zeros((batch_size, FRAMES, FEATURES), "float32")
        labels = np.zeros((batch_size, LABELS), "int32")
        feature_length = np.zeros(batch_size, "int32")
        label_length = rng.integers(1, LABELS + 1, batch_size).astype("int32")
        for b in range(batch_size):
            said = rng.integers(1, PHONES, label_length[b])
            labels[b, :label_length[b]] = said
            frames = np.repeat(spectra[said], rng.integers(2, 4, label_length[b]), axis=0)[:FRAMES]
            feature_length[b] = len(frames)
            features[b, :len(frames)] = frames + rng.normal(0, 0.3, frames.shape)
        yield {"features": features, "feature_length": feature_length, "labels": labels, "label_length": label_length}
