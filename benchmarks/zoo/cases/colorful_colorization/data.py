"""Landscapes of a sky, a ground and a few things in Lab, 24 x 24: lightness in 0..100, a and b in about -60..60. Some pictures have
no colour at all."""
import numpy as np

SIZE = 24
SKY, GROUND = (70, -5, -35), (45, -25, 30)
THINGS = np.array([(50, 45, 35), (60, 5, 50), (35, 35, -35), (80, -3, 4)], float)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE]
    for _ in range(steps):
        lab = np.empty((batch_size, SIZE, SIZE, 3))
        for b in range(batch_size):
            horizon = rng.uniform(6, 18) + rng.uniform(-0.3, 0.3) * x
            lab[b] = np.where((y < horizon)[..., None], np.array(SKY), np.array(GROUND)) + rng.normal(0, 6, 3)
            for _ in range(rng.integers(1, 4)):
                cy, cx, r = rng.uniform(3, SIZE - 3), rng.uniform(3, SIZE - 3), rng.uniform(2, 6)
                lab[b][(y - cy) ** 2 + (x - cx) ** 2 < r * r] = THINGS[rng.integers(len(THINGS))] + rng.normal(0, 4, 3)
            lab[b] += rng.normal(0, 2.0, lab[b].shape)
            if b % 6 == 4 or rng.random() < 0.1:
                lab[b, ..., 1:] = rng.uniform(-1.5, 1.5, lab[b, ..., 1:].shape)
        yield {"data_l": np.clip(lab[..., :1], 0, 100).astype(np.float32), "data_ab": lab[..., 1:].astype(np.float32)}
