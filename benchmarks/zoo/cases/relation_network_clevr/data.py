"""Scenes of coloured squares and padded questions about them; `kept` are the draws of dropout, over the chance to keep."""

import numpy as np

SIZE, LENGTH, VOCABULARY, ANSWERS = 24, 8, 20, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = rng.uniform(0, 0.3, (batch_size, SIZE, SIZE, 3))
        for n in range(batch_size):
            for _ in range(4):
                y, x = rng.integers(0, SIZE - 5, 2)
                images[n, y:y + 5, x:x + 5] = rng.uniform(0, 1, 3)
        lengths = rng.integers(3, LENGTH + 1, size=batch_size)
        lengths[0] = LENGTH
        words = rng.integers(1, VOCABULARY, size=(batch_size, LENGTH))
        words = np.where(np.arange(LENGTH)[None, :] < lengths[:, None], words, 0)
        yield {
            "images": images.astype("float32"),
            "questions": words.astype("int32"),
            "lengths": lengths.astype("int32"),
            "answers": ((words.sum(1) + lengths) % ANSWERS).astype("int32"),
            "kept": (2.0 * (rng.random((batch_size, 32)) < 0.5)).astype("float32"),
        }
