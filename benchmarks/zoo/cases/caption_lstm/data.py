"""Image features and captions: 1 begins, 2 ends, 0 pads; the words depend on the strongest features."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        features = np.maximum(rng.standard_normal((batch_size, 20)), 0)
        captions = np.zeros((batch_size, 10), "int32")
        captions[:, 0] = 1
        strongest = np.argsort(-features, axis=1)
        for i in range(batch_size):
            n = rng.integers(2, 9)
            captions[i, 1:n] = 3 + strongest[i, :n - 1] * 2 + rng.integers(0, 2, n - 1)
            captions[i, n] = 2
        yield {"features": features.astype("float32"), "captions": captions}
