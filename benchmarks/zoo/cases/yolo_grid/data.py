"""Pictures of filled rectangles on noise; a cell of the 4 x 4 grid owns the object whose centre lies in it."""

import numpy as np

ANCHORS = np.array([[0.875, 1.625], [1.75, 1.125]])  # width and height, in cells
COLOURS = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.2, 0.3, 0.9]])


def _shape_iou(size):
    inner = np.minimum(ANCHORS, size).prod(axis=1)
    return inner / (ANCHORS.prod(axis=1) + size.prod() - inner)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = 0.4 + 0.1 * rng.standard_normal((batch_size, 32, 32, 3))
        truth = np.zeros((batch_size, 4, 4, 4))
        responsible = np.zeros((batch_size, 4, 4, 2))
        classes = np.zeros((batch_size, 4, 4))
        for example in range(batch_size):
            cells = rng.choice(16, size=rng.integers(1, 4), replace=False)
            for row, column in zip(cells // 4, cells % 4):
                x, y = column + rng.uniform(0.1, 0.9), row + rng.uniform(0.1, 0.9)
                size = ANCHORS[rng.integers(2)] * rng.uniform(0.7, 1.3, size=2)
                kind = rng.integers(3)
                x0, x1 = (np.clip([x - size[0] / 2, x + size[0] / 2], 0, 4) * 8).round().astype(int)
                y0, y1 = (np.clip([y - size[1] / 2, y + size[1] / 2], 0, 4) * 8).round().astype(int)
                images[example, y0:y1, x0:x1] = COLOURS[kind] + 0.05 * rng.standard_normal((y1 - y0, x1 - x0, 3))
                truth[example, row, column] = [x / 4, y / 4, size[0] / 4, size[1] / 4]
                responsible[example, row, column, _shape_iou(size).argmax()] = 1.0
                classes[example, row, column] = kind
        yield {
            "images": images.astype("float32"),
            "truth": truth.astype("float32"),
            "responsible": responsible.astype("float32"),
            "classes": classes.astype("int32"),
        }
