"""Pictures in [0, 1] of six classes of shapes: discs and squares, each small, hollow or large, in colours of their own."""
import numpy as np

SIZE, CLASSES = 47, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        images = np.empty((batch_size, SIZE, SIZE, 3))
        for i, label in enumerate(labels):
            dy, dx = y - rng.uniform(14, 33), x - rng.uniform(14, 33)
            far = np.hypot(dy, dx) if label < 3 else np.maximum(abs(dy), abs(dx))
            inside = [far < 7, (far < 12) & (far > 7), far < 13][label % 3]
            images[i] = np.where(inside[..., None], rng.uniform(0.5, 1, 3), rng.uniform(0, 0.5, 3))
        images = np.clip(images + 0.1 * rng.standard_normal(images.shape), 0, 1)
        yield {"images": images.astype("float32"), "labels": labels.astype("int32")}
