"""Unpaired pictures of two domains in [-1, 1]: coloured stripes, and soft discs on a dark ground."""
import numpy as np

HEIGHT, WIDTH = 12, 16


def stripes(rng, n):
    rows = np.arange(HEIGHT)[None, :, None, None]
    cols = np.arange(WIDTH)[None, None, :, None]
    period = rng.choice([3.0, 4.0, 6.0], size=(n, 1, 1, 1), p=[0.6, 0.3, 0.1])
    slope = rng.uniform(-0.6, 0.6, (n, 1, 1, 1))
    wave = np.sin(2 * np.pi * (rows + slope * cols) / period + rng.uniform(0, 6, (n, 1, 1, 1)))
    tint = rng.uniform(0.2, 1.0, (n, 1, 1, 3)) * np.array([1.0, 0.7, 0.3])
    return wave * tint


def discs(rng, n):
    rows = np.arange(HEIGHT)[None, :, None, None]
    cols = np.arange(WIDTH)[None, None, :, None]
    picture = np.full((n, HEIGHT, WIDTH, 3), -0.8)
    for _ in range(2):
        y = rng.uniform(2, HEIGHT - 2, (n, 1, 1, 1))
        x = rng.uniform(2, WIDTH - 2, (n, 1, 1, 1))
        r = rng.uniform(1.5, 4.0, (n, 1, 1, 1))
        inside = 1 / (1 + np.exp(2 * (np.hypot(rows - y, cols - x) - r)))
        picture = picture + inside * rng.uniform(0.3, 1.4, (n, 1, 1, 3)) * np.array([0.4, 0.8, 1.0])
    return np.clip(picture, -1, 1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x = stripes(rng, batch_size) + 0.03 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        y = discs(rng, batch_size) + 0.03 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        yield {"images_x": np.clip(x, -1, 1).astype("float32"), "images_y": np.clip(y, -1, 1).astype("float32")}
