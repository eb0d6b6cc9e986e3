"""Street-like scenes of four classes: a sky, a ground, boxes of two kinds between; some pixels are unlabelled (255)."""
import numpy as np

HEIGHT, WIDTH, CLASSES, VOID = 20, 28, 4, 255
COLOURS = np.array([[0.2, 0.5, 0.9], [0.4, 0.4, 0.35], [0.8, 0.2, 0.2], [0.2, 0.7, 0.3]])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = np.zeros((batch_size, HEIGHT, WIDTH), "int32")
        for k in range(batch_size):
            labels[k, rng.integers(7, 14):] = 1
            for kind in (2, 3, 2, 3)[: rng.integers(2, 5)]:
                top, left = rng.integers(2, 14), rng.integers(0, 22)
                labels[k, top:top + rng.integers(3, 8), left:left + rng.integers(3, 8)] = kind
        images = COLOURS[labels] + 0.15 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3)) + 0.1 * rng.standard_normal((batch_size, 1, 1, 3))
        labels[rng.random(labels.shape) < 0.06] = VOID
        yield {"images": images.astype("float32"), "labels": labels}
