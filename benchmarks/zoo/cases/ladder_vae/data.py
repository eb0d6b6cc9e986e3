"""Points on a noisy curved surface in 24 dimensions, the draws of both layers, and the weight of the KL terms, which grows from step to step."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(3).standard_normal((3, 24))
    for step in range(steps):
        angle = rng.uniform(0, 2 * np.pi, size=(batch_size, 1))
        height = rng.standard_normal((batch_size, 1))
        x = np.tanh(np.concatenate([np.cos(angle), np.sin(angle), height], axis=1) @ mix) + 0.1 * rng.standard_normal((batch_size, 24))
        yield {
            "x": x.astype("float32"),
            "noise1": rng.standard_normal((batch_size, 12)).astype("float32"),
            "noise2": rng.standard_normal((batch_size, 5)).astype("float32"),
            "warm_up": np.full(batch_size, 0.25 * (step + 1)).astype("float32"),
        }
