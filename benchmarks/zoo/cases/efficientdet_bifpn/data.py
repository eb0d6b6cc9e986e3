"""Discs and squares of three kinds on a cluttered ground, 32 x 32. Targets for anchors of two shapes on grids of 8, 4 and 2, one after
another: class (-1 none, -2 in between, left out), box offsets; and the number of anchors that match in each image."""
import numpy as np

SIZE, CLASSES = 32, 3
COLOURS = np.array([[0.9, 0.3, 0.2], [0.25, 0.8, 0.3], [0.3, 0.4, 0.9]])


def anchors():
    boxes = []
    for level in (8, 4, 2):
        stride = SIZE / level
        for y in range(level):
            for x in range(level):
                for h, w in ((1.5, 1.5), (1.1, 2.0)):
                    boxes.append(((y + 0.5) * stride, (x + 0.5) * stride, h * stride, w * stride))
    return np.array(boxes)


def iou(box, others):
    lo = np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2)
    hi = np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2)
    both = np.clip(hi - lo, 0, None).prod(1)
    return both / (box[2:].prod() + others[:, 2:].prod(1) - both)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    grid = anchors()
    y, x = np.mgrid[:SIZE, :SIZE]
    for _ in range(steps):
        images = rng.uniform(0.2, 0.4, (batch_size, 1, 1, 3)) + rng.normal(0, 0.06, (batch_size, SIZE, SIZE, 3))
        classes = np.full((batch_size, len(grid)), -1, np.int32)
        boxes = np.zeros((batch_size, len(grid), 4))
        for b in range(batch_size):
            best = np.zeros(len(grid))
            for k in range(rng.integers(1, 4)):
                cls = int(rng.integers(CLASSES))
                h, w = rng.uniform(*((4.5, 7), (9, 15), (18, 27))[(b + k) % 3], 2)
                box = np.array([rng.uniform(h / 2, SIZE - h / 2), rng.uniform(w / 2, SIZE - w / 2), h, w])
                inside = (abs(y - box[0]) < h / 2) & (abs(x - box[1]) < w / 2)
                if cls == 1:
                    inside = ((y - box[0]) / h) ** 2 + ((x - box[1]) / w) ** 2 < 0.25
                images[b][inside] += COLOURS[cls] * rng.uniform(0.4, 0.7)
                overlap = iou(box, grid)
                match = (overlap > 0.5) | (overlap == overlap.max())
                near = (overlap > 0.35) & ~match & (classes[b] == -1)
                classes[b][near] = -2
                match &= overlap > best
                best[match] = overlap[match]
                classes[b][match] = cls
                boxes[b][match] = np.concatenate([(box[:2] - grid[:, :2]) / grid[:, 2:], np.log(box[2:] / grid[:, 2:])], 1)[match]
        positives = (classes >= 0).sum(1)
        yield {"images": images.astype(np.float32), "cls_targets": classes, "box_targets": boxes.astype(np.float32),
               "num_positives": positives.astype(np.float32)}
