"""Sequences of a second-order recurrence, padded on the left: prompts end where prediction goes on."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tokens = np.zeros((batch_size, 15), dtype="int64")
        tokens[:, 0] = rng.integers(0, 35, size=batch_size)
        tokens[:, 1] = rng.integers(0, 35, size=batch_size)
        for t in range(2, 15):
            follow = (tokens[:, t - 1] + tokens[:, t - 2] + 1) % 35
            tokens[:, t] = np.where(rng.random(batch_size) < 0.15, rng.integers(0, 35, size=batch_size), follow)
        tokens += 1
        padding = rng.integers(0, 7, size=(batch_size, 1))
        mask = np.arange(14)[None, :] >= padding
        yield {
            "tokens": np.where(mask, tokens[:, :-1], 0).astype("int32"),
            "labels": np.where(mask, tokens[:, 1:], 0).astype("int32"),
            "mask": mask.astype("float32"),
        }
