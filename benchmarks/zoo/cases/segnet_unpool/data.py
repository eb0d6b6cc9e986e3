"""Street-like scenes in 0..255: sky, ground, houses and a pole; some pixels are void, their label is 5."""

import numpy as np

COLOURS = np.array([[130, 170, 220], [90, 90, 95], [160, 110, 80], [200, 200, 60], [60, 130, 60]], float)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = np.zeros((batch_size, 24, 32), int)
        for label in labels:
            horizon = rng.integers(8, 14)
            label[horizon:] = 1
            for left in rng.integers(0, 24, size=2):
                label[horizon - rng.integers(3, 8):horizon, left:left + rng.integers(4, 9)] = 2
            pole = rng.integers(2, 30)
            label[4:18, pole:pole + 2] = 3
            bush = rng.integers(0, 26)
            label[horizon - 1:horizon + 3, bush:bush + 6] = 4
        images = COLOURS[labels] + 25 * rng.standard_normal((batch_size, 24, 32, 3))
        labels[rng.uniform(size=labels.shape) < 0.05] = 5
        yield {"images": images.clip(0, 255).astype("float32"), "labels": labels.astype("int32")}
