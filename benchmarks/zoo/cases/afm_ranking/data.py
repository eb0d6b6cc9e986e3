"""Impressions as one feature per field with a value; the item that was clicked, and one that was not, under one user."""

import numpy as np

FIELD_SIZES = (12, 8, 5, 20, 10, 6)
USER_FIELDS = 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(FIELD_SIZES)[:-1]])
    for _ in range(steps):
        # popular features come first
        draws = [rng.geometric(0.25, size=(2, batch_size)) % size for size in FIELD_SIZES]
        features = np.stack(draws, axis=-1) + offsets
        features[1, :, :USER_FIELDS] = features[0, :, :USER_FIELDS]
        values = np.where(rng.random((2, batch_size, 6)) < 0.6, 1.0, rng.uniform(0.2, 2.0, size=(2, batch_size, 6)))
        values[1, :, :USER_FIELDS] = values[0, :, :USER_FIELDS]
        yield {
            "clicked": features[0].astype("int32"),
            "clicked_values": values[0].astype("float32"),
            "skipped": features[1].astype("int32"),
            "skipped_values": values[1].astype("float32"),
            "importance": rng.integers(1, 4, size=batch_size).astype("float32"),
        }
