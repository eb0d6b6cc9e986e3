"""Videos as frame features: actions follow each other in segments; what lies behind a video's end is padding."""

import numpy as np

FRAMES, FEATURES, ACTIONS = 20, 10, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    prototypes = rng.standard_normal((ACTIONS, FEATURES))
    for _ in range(steps):
        labels = np.zeros((batch_size, FRAMES), int)
        for row in labels:
            at = 0
            while at < FRAMES:
                end = at + rng.integers(3, 8)
                row[at:end] = rng.integers(0, ACTIONS)
                at = end
        mask = np.arange(FRAMES) < rng.integers(11, FRAMES + 1, size=batch_size)[:, None]
        features = prototypes[labels] + 0.7 * rng.standard_normal((batch_size, FRAMES, FEATURES))
        yield {
            "features": (features * mask[..., None]).astype("float32"),
            "labels": np.where(mask, labels, -100).astype("int32"),
            "mask": mask.astype("float32"),
        }
