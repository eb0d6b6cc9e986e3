"""Little colour pictures in 0..255 (a lit ball in front of a gradient), and the uniform noise that makes them continuous."""
import numpy as np

SIZE = 8


def picture(rng):
    y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1)
    sky, ground = rng.uniform(60, 220, 3), rng.uniform(20, 160, 3)
    image = sky + (ground - sky) * y[..., None]
    cy, cx, r = rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.15, 0.4)
    d = ((y - cy) ** 2 + (x - cx) ** 2) / r ** 2
    ball = rng.uniform(0.3, 1.0, 3) * 255 * np.clip(1.1 - 0.6 * ((y - cy + 0.1) ** 2 + (x - cx + 0.1) ** 2) / r ** 2, 0.1, 1)[..., None]
    image = np.where((d < 1)[..., None], ball, image)
    return np.clip(np.round(image + rng.normal(0, 3, image.shape)), 0, 255)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"images": np.stack([picture(rng) for _ in range(batch_size)]).astype(np.float32),
               "noise": rng.random((batch_size, SIZE, SIZE, 3)).astype(np.float32)}
