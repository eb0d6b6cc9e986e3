"""Two pairs of features for each example; in every other one the second pair is the first the other way round."""

import numpy as np


def batches(steps, batch_size, seed):
    """Yields `steps` batches: features, float32 ``[batch_size, 4]``, and targets ``[batch_size]``."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        features = np.round(8 * random.standard_normal((batch_size, 4))) / 8
        features[::2, 2:] = features[::2, 1::-1]
        yield {"features": features.astype("float32"), "targets": np.ones(batch_size, "float32")}
