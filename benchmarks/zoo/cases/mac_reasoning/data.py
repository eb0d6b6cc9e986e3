"""Questions about grids of coloured cells, as features of a frozen network; the mask of the memory's dropout is drawn here."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((6, 8))
    for _ in range(steps):
        kinds = rng.integers(0, 6, (batch_size, 4, 4))
        images = codes[kinds] + 0.3 * rng.standard_normal((batch_size, 4, 4, 8))
        lengths = rng.integers(3, 8, batch_size)
        questions = rng.integers(1, 18, (batch_size, 7))
        asked = rng.integers(0, 6, batch_size)
        questions[:, 1] = 1 + asked
        questions = np.where(np.arange(7)[None, :] < lengths[:, None], questions, 0)
        answers = np.minimum((kinds == asked[:, None, None]).sum((1, 2)), 4)
        keep = (rng.random((batch_size, 12)) < 0.85) / 0.85
        yield {
            "questions": questions.astype("int32"),
            "lengths": lengths.astype("int32"),
            "images": images.astype("float32"),
            "answers": answers.astype("int32"),
            "memory_mask": keep.astype("float32"),
        }
