"""Bars and rings of four unbalanced kinds in [0, 1]; categories, continuous codes and noise of the generator are drawn here."""
import numpy as np

HEIGHT, WIDTH = 12, 16
CATEGORIES, CODES, NOISE = 4, 2, 9


def picture(rng):
    kind = rng.choice(4, p=[0.5, 0.25, 0.15, 0.1])
    rows, cols = np.mgrid[0:HEIGHT, 0:WIDTH]
    y, x = rng.uniform(3, HEIGHT - 3), rng.uniform(4, WIDTH - 4)
    width = rng.uniform(0.8, 2.0)
    if kind == 0:
        distance = np.abs((cols - x) + rng.uniform(-0.5, 0.5) * (rows - y))
    elif kind == 1:
        distance = np.abs((rows - y) + rng.uniform(-0.5, 0.5) * (cols - x))
    elif kind == 2:
        distance = np.abs(np.hypot(rows - y, cols - x) - rng.uniform(2, 4))
    else:
        distance = np.minimum(np.abs(rows - y), np.abs(cols - x))
    return 1 / (1 + np.exp(3 * (distance - width)))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = np.stack([picture(rng) for _ in range(batch_size)])[..., None]
        images = np.clip(images + 0.02 * rng.standard_normal(images.shape), 0, 1)
        yield {
            "images": images.astype("float32"),
            "categories": rng.integers(0, CATEGORIES, batch_size).astype("int32"),
            "codes": rng.uniform(-1, 1, (batch_size, CODES)).astype("float32"),
            "noise": rng.standard_normal((batch_size, NOISE)).astype("float32"),
        }
