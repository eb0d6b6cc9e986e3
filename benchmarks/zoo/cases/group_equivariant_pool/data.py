"""Two-channel pictures of a corner-shaped motif, turned by quarter turns; the class is the motif's size and channel."""

import numpy as np

SIZE = 16


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, 6, size=batch_size)
        images = 0.4 * rng.standard_normal((batch_size, SIZE, SIZE, 2))
        for image, label in zip(images, labels):
            arm, channel = 3 + 2 * (label // 2), label % 2
            motif = np.zeros((arm, arm))
            motif[0, :] = motif[:, 0] = 1.5
            y, x = rng.integers(0, SIZE - arm + 1, size=2)
            image[y:y + arm, x:x + arm, channel] += np.rot90(motif, rng.integers(0, 4))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
