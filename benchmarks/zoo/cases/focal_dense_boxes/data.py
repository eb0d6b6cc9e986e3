"""Bright rectangles in noise, with what each location of the two levels (strides 4 and 8) has to say.

labels: 0 background, 1 to 3 classes, -1 not counted. sides: distances to the left, top, right and bottom, in strides.
"""

import numpy as np

SIZE = 24
LEVELS = ((4, 0.0, 5.0), (8, 5.0, 99.0))


def _assign(boxes, classes, crowd):
    labels, sides = [], []
    for stride, low, high in LEVELS:
        at = np.arange(SIZE // stride) * stride + stride / 2
        y, x = np.meshgrid(at, at, indexing="ij")
        x, y = x.reshape(-1), y.reshape(-1)
        label, side, best = np.zeros(len(x), "int32"), np.ones((len(x), 4)), np.full(len(x), 1e9)
        for (x0, y0, x1, y1), kind in zip(boxes, classes):
            d = np.stack([x - x0, y - y0, x1 - x, y1 - y], 1)
            area = (x1 - x0) * (y1 - y0)
            take = (d.min(1) > 0) & (d.max(1) > low) & (d.max(1) <= high * 1.6) & (area < best)
            label[take], side[take], best[take] = kind, d[take] / stride, area
        x0, y0, x1, y1 = crowd
        label[(x > x0) & (x < x1) & (y > y0) & (y < y1) & (label == 0)] = -1
        labels.append(label)
        sides.append(side)
    return np.concatenate(labels), np.concatenate(sides)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, labels, sides = [], [], []
        for _ in range(batch_size):
            image = 0.3 * rng.standard_normal((SIZE, SIZE, 3))
            boxes, classes = [], []
            for _ in range(int(rng.integers(1, 4))):
                w, h = rng.uniform(5, 16, size=2)
                x0, y0 = rng.uniform(0, SIZE - w), rng.uniform(0, SIZE - h)
                kind = int(rng.integers(1, 4))
                image[int(y0) : int(y0 + h), int(x0) : int(x0 + w), kind - 1] += rng.uniform(0.5, 1.5)
                boxes.append((x0, y0, x0 + w, y0 + h))
                classes.append(kind)
            cx, cy = rng.uniform(0, SIZE - 10, size=2)
            label, side = _assign(boxes, classes, (cx, cy, cx + 10, cy + 10))
            images.append(image)
            labels.append(label)
            sides.append(side)
        yield {
            "images": np.stack(images).astype("float32"),
            "labels": np.stack(labels).astype("int32"),
            "sides": np.stack(sides).astype("float32"),
        }
