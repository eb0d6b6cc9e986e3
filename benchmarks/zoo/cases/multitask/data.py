"""Sensor rows with a class for all and a measured value for some."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(2).standard_normal((12, 4))
    for _ in range(steps):
        features = rng.standard_normal((batch_size, 12)) * 1.5
        hidden = np.tanh(features @ mix / 3)
        has_value = rng.random(batch_size) < 0.6
        has_value[:: max(batch_size // 12, 1)] = True
        values = 3 * hidden[:, 0] + hidden[:, 1] ** 2 + 0.2 * rng.standard_normal(batch_size)
        yield {
            "features": features.astype("float32"),
            "classes": hidden[:, 1:].argmax(axis=1).astype("int32"),
            "values": np.where(has_value, values, 0).astype("float32"),
            "has_value": has_value.astype("float32"),
        }
