"""Small scans: an organ of one brightness with a lesion inside, both ellipsoids, in a volume of three slices' thickness."""
import numpy as np

DEPTH, HEIGHT, WIDTH = 8, 12, 12
CLASSES = 3


def ellipsoid(centre, radii):
    z, y, x = np.mgrid[0:DEPTH, 0:HEIGHT, 0:WIDTH]
    return sum(((a - c) / r) ** 2 for a, c, r in zip((z, y, x), centre, radii)) <= 1


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        volumes = np.empty((batch_size, DEPTH, HEIGHT, WIDTH, 1))
        labels = np.zeros((batch_size, DEPTH, HEIGHT, WIDTH), "int32")
        for i in range(batch_size):
            centre = np.array([DEPTH, HEIGHT, WIDTH]) / 2 + rng.normal(0, 0.8, 3)
            radii = rng.uniform([2.0, 3.0, 3.0], [3.8, 5.5, 5.5])
            labels[i][ellipsoid(centre, radii)] = 1
            labels[i][ellipsoid(centre + rng.uniform(-0.4, 0.4, 3) * radii, radii * rng.uniform(0.3, 0.55, 3))] = 2
            level = np.array([0.0, rng.uniform(0.6, 1.2), rng.uniform(1.5, 2.2)])
            volumes[i, ..., 0] = level[labels[i]] + rng.normal(0, 0.3, labels[i].shape)
        yield {"volume": volumes.astype("float32"), "label": labels}
