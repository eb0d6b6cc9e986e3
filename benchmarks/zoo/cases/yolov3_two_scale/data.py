"""Pictures of coloured boxes with their labels, written to the cell and the anchor that fits best at each of two scales.

A cell holds per anchor: centre and size in pixels, 1 if there is an object, and its class as one of four.
"""

import numpy as np

HEIGHT, WIDTH, CLASSES = 32, 48, 4
ANCHORS = np.array([[5, 7], [9, 6], [8, 12], [16, 10], [12, 18], [26, 20]], float)
TINTS = np.array([[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.1, 0.1, 1.0], [0.9, 0.9, 0.1]])


def example(rng):
    image = 0.3 + 0.05 * rng.standard_normal((HEIGHT, WIDTH, 3))
    large, small = np.zeros((4, 6, 3, 9)), np.zeros((8, 12, 3, 9))
    for _ in range(rng.integers(2, 5)):
        w, h = ANCHORS[rng.integers(6)] * rng.uniform(0.8, 1.25, size=2)
        x, y = rng.uniform(w / 2, WIDTH - w / 2), rng.uniform(h / 2, HEIGHT - h / 2)
        kind = rng.integers(CLASSES)
        image[int(y - h / 2):int(y + h / 2), int(x - w / 2):int(x + w / 2)] = TINTS[kind]
        inter = np.minimum(ANCHORS[:, 0], w) * np.minimum(ANCHORS[:, 1], h)
        best = int(np.argmax(inter / (ANCHORS.prod(1) + w * h - inter)))
        grid, stride = (small, 4) if best < 3 else (large, 8)
        cell = grid[int(y // stride), int(x // stride), best % 3]
        cell[:] = 0
        cell[:4], cell[4], cell[5 + kind] = (x, y, w, h), 1, 1
    return image, large, small


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, large, small = (np.stack(v).astype("float32") for v in zip(*(example(rng) for _ in range(batch_size))))
        yield {"images": images.clip(0, 1), "labels_large": large, "labels_small": small}
