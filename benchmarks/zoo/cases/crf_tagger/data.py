"""Sentences whose tags follow from the word, its capitals and the tag before; 0 pads words, capitals and tags."""

import numpy as np

MAX_LENGTH = 11


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    follows = rng.integers(0, 7, size=(7, 4))
    for _ in range(steps):
        lengths = rng.integers(3, MAX_LENGTH + 1, size=batch_size)
        mask = np.arange(MAX_LENGTH)[None, :] < lengths[:, None]
        words = rng.integers(1, 50, size=mask.shape)
        caps = rng.integers(1, 4, size=mask.shape)
        tags = np.zeros(mask.shape, "int64")
        for t in range(MAX_LENGTH):
            before = tags[:, t - 1] if t else np.zeros(batch_size, "int64")
            tags[:, t] = (follows[before, caps[:, t]] + words[:, t] // 25) % 7
        yield {
            "words": (words * mask).astype("int32"),
            "caps": (caps * mask).astype("int32"),
            "tags": (tags * mask).astype("int32"),
            "lengths": lengths.astype("int32"),
            "mask": mask.astype("float32"),
        }
