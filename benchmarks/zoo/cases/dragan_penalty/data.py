"""Small grey garments in [0, 1], codes for the generator, and the noise that real images are perturbed with."""
import numpy as np

SIZE, Z_DIM = 12, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        images = np.zeros((batch_size, SIZE, SIZE, 1))
        for i in range(batch_size):
            top, left = rng.integers(0, 4, size=2)
            height, width = rng.integers(5, 9, size=2)
            inside = (y >= top) & (y < top + height) & (x >= left) & (x < left + width)
            sleeve = (np.abs(y - top - 1) <= 1) & (rng.random() < 0.5)
            images[i, ..., 0] = np.where(inside, rng.uniform(0.4, 0.9), 0.0) + np.where(sleeve, 0.3, 0.0)
        images = np.clip(images + rng.normal(0, 0.03, images.shape), 0, 1)
        yield {"images": images.astype("float32"), "z": rng.uniform(-1, 1, size=(batch_size, Z_DIM)).astype("float32"),
               "noise": rng.random(images.shape).astype("float32"),
               "alpha": rng.random((batch_size, 1, 1, 1)).astype("float32")}
