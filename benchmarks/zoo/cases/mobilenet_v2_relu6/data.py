"""Small colour pictures of six classes: stripes of six directions, in a random colour and phase, with noise."""
import numpy as np

HEIGHT, WIDTH, CLASSES = 16, 20, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        angle = (labels * np.pi / CLASSES)[:, None, None]
        wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 1.1 + rng.uniform(0, 6.3, (batch_size, 1, 1)))
        images = wave[..., None] * rng.uniform(0.3, 1.0, (batch_size, 1, 1, 3)) + 0.2 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
