"""Census-like rows: categories, hashed crosses, a bag of skills of varying size, skewed numbers."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        occupation = np.minimum(rng.zipf(1.6, size=batch_size) - 1, 29)
        education = rng.integers(0, 12, size=batch_size)
        skills = rng.integers(1, 40, size=(batch_size, 6))
        count = rng.integers(1, 7, size=(batch_size, 1))
        skills = np.where(np.arange(6)[None, :] < count, skills, 0)
        numbers = np.exp(rng.standard_normal((batch_size, 4)) * 0.8 + 0.5)
        score = 0.3 * education + np.log(numbers[:, 0]) + 0.5 * (occupation < 3) - 2 + 0.5 * rng.standard_normal(batch_size)
        yield {
            "occupation": occupation.astype("int32"),
            "education": education.astype("int32"),
            "crossed": ((occupation * 7919 + education) % 50).astype("int32"),
            "skills": skills.astype("int32"),
            "numbers": numbers.astype("float32"),
            "labels": (score > 0).astype("float32"),
        }
