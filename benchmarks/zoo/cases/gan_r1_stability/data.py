"""Small colour pictures of four classes (a disc, a ring, a cross, a square) in random places, with the noise of the generator."""
import numpy as np

SIZE, Z_DIM, CLASSES = 16, 8, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        real = np.empty((batch_size, SIZE, SIZE, 3))
        for k, label in enumerate(labels):
            dy, dx = y - rng.uniform(5, 10), x - rng.uniform(5, 10)
            far = np.hypot(dx, dy)
            inside = [far < 4, abs(far - 4) < 1.2, np.minimum(abs(dx), abs(dy)) < 1.2, np.maximum(abs(dx), abs(dy)) < 3.5][label]
            real[k] = np.where(inside[..., None], rng.uniform(0.2, 0.9, 3), rng.uniform(-0.9, -0.3, 3))
        real += 0.05 * rng.standard_normal(real.shape)
        yield {"z": rng.standard_normal((batch_size, Z_DIM)).astype("float32"), "real": real.astype("float32"),
               "labels": labels.astype("int32")}
