"""Scenes of up to six regions, a question about one of their kinds, and several people's answers to it."""

import numpy as np


def batches(steps, batch_size, seed, regions=6, length=7, answers=9):
    rng = np.random.default_rng(seed)
    prototypes = np.random.default_rng(1234).standard_normal((5, 10))
    for _ in range(steps):
        kinds = rng.integers(0, 5, size=(batch_size, regions))
        features = prototypes[kinds] + 0.4 * rng.standard_normal((batch_size, regions, 10))
        boxes = rng.integers(3, regions + 1, size=batch_size)
        present = np.arange(regions)[None, :] < boxes[:, None]
        features *= present[..., None]
        lengths = rng.integers(3, length + 1, size=batch_size)
        # word 0 is the unknown word, and fills up what is behind the end
        words = rng.integers(0, 30, size=(batch_size, length))
        words = np.where(rng.random(words.shape) < 0.2, 0, words)
        asked = rng.integers(0, 5, size=batch_size)
        words[:, 1] = 10 + asked
        words = np.where(np.arange(length)[None, :] < lengths[:, None], words, 0)
        counts = ((kinds == asked[:, None]) & present).sum(1)
        votes = np.zeros((batch_size, answers))
        for i in range(batch_size):
            for _vote in range(10):
                votes[i, counts[i] if rng.random() < 0.7 else rng.integers(0, answers)] += 0.1
        yield {
            "features": features.astype("float32"),
            "boxes": boxes.astype("int32"),
            "words": words.astype("int32"),
            "lengths": lengths.astype("int32"),
            "votes": votes.astype("float32"),
        }
