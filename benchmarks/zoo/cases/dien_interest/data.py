"""Histories of items from drifting interests, with items that were shown and not clicked; rows are padded on the right with id 0."""

import numpy as np

N_UID, N_MID, N_CAT, LENGTH = 20, 50, 9, 8


def category(mid):
    return np.where(mid > 0, mid % (N_CAT - 1) + 1, 0)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        lengths = rng.integers(3, LENGTH + 1, size=batch_size)
        mask = np.arange(LENGTH)[None, :] < lengths[:, None]
        interest = rng.integers(1, N_MID, size=(batch_size, 1)) + rng.integers(0, 2, size=(batch_size, LENGTH)).cumsum(1) * 8
        history = (interest + rng.integers(0, 2, size=(batch_size, LENGTH)) - 1) % (N_MID - 1) + 1
        negative = rng.integers(1, N_MID, size=(batch_size, LENGTH))
        last = history[np.arange(batch_size), lengths - 1]
        clicked = rng.random(batch_size) < 0.5
        mid = np.where(clicked, (last + 7) % (N_MID - 1) + 1, rng.integers(1, N_MID, size=batch_size))
        history, negative = history * mask, negative * mask
        yield {
            "uid": rng.integers(0, N_UID, size=batch_size).astype("int32"),
            "mid": mid.astype("int32"),
            "cat": category(mid).astype("int32"),
            "mid_his": history.astype("int32"),
            "cat_his": category(history).astype("int32"),
            "noclk_mid": negative.astype("int32"),
            "noclk_cat": category(negative).astype("int32"),
            "mask": mask.astype("float32"),
            "seq_len": lengths.astype("int32"),
            "target": np.stack([clicked, ~clicked], axis=1).astype("float32"),
        }
