"""White squares, ellipses and hearts of sorts on black, as in dSprites, and the noise of the encoder's samples."""
import numpy as np

SIZE, LATENT = 16, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        kind, size, turn = rng.integers(0, 3, batch_size), rng.uniform(2.0, 4.5, batch_size), rng.uniform(0, 6.3, batch_size)
        images = np.zeros((batch_size, SIZE, SIZE, 1))
        for k in range(batch_size):
            dy, dx = y - rng.uniform(5, 11), x - rng.uniform(5, 11)
            u, v = dx * np.cos(turn[k]) + dy * np.sin(turn[k]), dy * np.cos(turn[k]) - dx * np.sin(turn[k])
            far = [np.maximum(abs(u), abs(v)), np.hypot(u, 1.8 * v), np.hypot(u, 1.3 * v - 0.8 * np.sqrt(abs(u)))][kind[k]]
            images[k, ..., 0] = far < size[k]
        yield {"images": images.astype("float32"), "noise": rng.standard_normal((batch_size, LATENT)).astype("float32")}
