"""Strokes on a wide canvas, 10 rows by 14 columns, nearly binary, and the noise that the latents are drawn with."""
import numpy as np

ROWS, COLUMNS, STEPS, LATENT = 10, 14, 4, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:ROWS, :COLUMNS]
    for _ in range(steps):
        images = np.zeros((batch_size, ROWS, COLUMNS))
        for i in range(batch_size):
            for _ in range(rng.integers(1, 4)):
                cy, cx = rng.uniform(1, ROWS - 2), rng.uniform(1, COLUMNS - 2)
                angle, length = rng.uniform(0, np.pi), rng.uniform(2, 6)
                along = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
                across = (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
                images[i] = np.maximum(images[i], np.exp(-across ** 2 / 0.6) * (abs(along) < length / 2 + 0.5))
        noise = rng.normal(0, 1, (batch_size, STEPS, LATENT))
        yield {"images": np.clip(images, 0, 1).astype("float32"), "noise": noise.astype("float32")}
