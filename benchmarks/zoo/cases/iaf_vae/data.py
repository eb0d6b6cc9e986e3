"""Colour pictures as bytes in floats, channels first, and the normal noise of the two layers' posteriors."""
import numpy as np

SIZE, Z_SIZE = 12, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1.0)
    for _ in range(steps):
        slope = rng.normal(0, 60, size=(batch_size, 3, 2, 1, 1))
        at = rng.uniform(0.2, 0.8, size=(batch_size, 1, 2, 1, 1))
        spot = 70 * np.exp(-((y - at[:, :, 0]) ** 2 + (x - at[:, :, 1]) ** 2) / 0.05)
        images = 120 + slope[:, :, 0] * (y - 0.5) + slope[:, :, 1] * (x - 0.5) + spot + rng.normal(0, 8, (batch_size, 3, SIZE, SIZE))
        yield {"x": np.clip(np.rint(images), 0, 255).astype("float32"),
               "noise_0": rng.standard_normal((batch_size, Z_SIZE, SIZE // 2, SIZE // 2)).astype("float32"),
               "noise_1": rng.standard_normal((batch_size, Z_SIZE, SIZE // 4, SIZE // 4)).astype("float32")}
