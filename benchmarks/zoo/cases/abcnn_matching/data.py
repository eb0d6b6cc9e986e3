"""Questions and candidate answers: a right answer shares words with its question; features count them."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        first_length = rng.integers(5, 11, size=batch_size)
        second_length = rng.integers(6, 11, size=batch_size)
        first = rng.integers(1, 50, size=(batch_size, 10))
        second = rng.integers(1, 50, size=(batch_size, 10))
        labels = rng.integers(0, 2, size=batch_size)
        copied = (rng.random((batch_size, 10)) < 0.5) & (labels[:, None] == 1)
        second = np.where(copied, np.roll(first, 1, axis=1), second)
        first = np.where(np.arange(10)[None, :] < first_length[:, None], first, 0)
        second = np.where(np.arange(10)[None, :] < second_length[:, None], second, 0)
        shared = [len((set(a) & set(b)) - {0}) for a, b in zip(first, second)]
        features = np.stack([np.log1p(shared), second_length / first_length], axis=1)
        yield {
            "question": first.astype("int32"),
            "answer": second.astype("int32"),
            "features": features.astype("float32"),
            "labels": labels.astype("int32"),
        }
