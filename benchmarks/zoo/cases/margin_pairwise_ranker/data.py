"""Lists of documents for queries: skewed features of several magnitudes, a grade from 0 to 3 each, and the lists' lengths."""

import numpy as np

DOCS = 7
FEATURES = 9


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(17).standard_normal(FEATURES)
    for _ in range(steps):
        lengths = rng.integers(3, DOCS + 1, size=batch_size)
        raw = rng.standard_normal((batch_size, DOCS, FEATURES))
        score = raw @ taste / 2 + 0.5 * rng.standard_normal((batch_size, DOCS))
        grades = np.clip(np.floor(score + 1.5), 0, 3)
        features = np.sign(raw) * np.expm1(1.5 * np.abs(raw))
        present = np.arange(DOCS)[None, :] < lengths[:, None]
        yield {
            "features": (features * present[..., None]).astype("float32"),
            "grades": (grades * present).astype("int32"),
            "lengths": lengths.astype("int32"),
        }
