"""Small scenes with up to three coloured boxes, and the anchor targets of a three level pyramid."""
import numpy as np

SIZE = 24
LEVELS = ((6, 4.0), (3, 8.0), (2, 12.0))   # cells, stride
SCALES = (1.2, 2.0)
COLOURS = np.array([[1.0, -0.4, -0.2], [-0.3, 0.9, 0.2], [-0.2, -0.1, 1.1]])


def anchors():
    boxes = []
    for cells, stride in LEVELS:
        for y in range(cells):
            for x in range(cells):
                for scale in SCALES:
                    boxes.append([(y + 0.5) * stride, (x + 0.5) * stride, stride * scale, stride * scale])
    return np.array(boxes)


def overlap(a, b):
    top = np.maximum(a[:, None, :2] - a[:, None, 2:] / 2, b[None, :, :2] - b[None, :, 2:] / 2)
    low = np.minimum(a[:, None, :2] + a[:, None, 2:] / 2, b[None, :, :2] + b[None, :, 2:] / 2)
    both = np.prod(np.maximum(low - top, 0), -1)
    return both / (np.prod(a[:, 2:], -1)[:, None] + np.prod(b[:, 2:], -1)[None] - both)


def scene(rng, grid):
    image = 0.3 * rng.standard_normal((SIZE, SIZE, 3)) + 0.2 * rng.standard_normal(3)
    count = rng.choice(4, p=[0.15, 0.35, 0.3, 0.2])
    kinds = rng.choice(3, size=count, p=[0.6, 0.3, 0.1])
    sizes = rng.uniform(4, 15, (count, 2))
    centres = rng.uniform(sizes / 2, SIZE - sizes / 2)
    cls, box = np.zeros(len(grid), np.int32), np.zeros((len(grid), 4))
    for (y, x), (h, w), kind in zip(centres, sizes, kinds):
        image[int(y - h / 2):int(y + h / 2) + 1, int(x - w / 2):int(x + w / 2) + 1] += COLOURS[kind]
    if count:
        truth = np.concatenate([centres, sizes], 1)
        iou = overlap(grid, truth)
        best, mine = iou.max(1), iou.argmax(1)
        cls[best >= 0.3] = -1
        positive = best >= 0.45
        for j in range(count):
            top = iou[:, j].argmax()
            positive[top], mine[top] = True, j
        cls[positive] = kinds[mine[positive]] + 1
        target = truth[mine[positive]]
        box[positive, :2] = (target[:, :2] - grid[positive, :2]) / grid[positive, 2:] / 0.2
        box[positive, 2:] = np.log(target[:, 2:] / grid[positive, 2:]) / 0.4
    return image, cls, box


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    grid = anchors()
    for _ in range(steps):
        images, cls, box = zip(*(scene(rng, grid) for _ in range(batch_size)))
        yield {"images": np.stack(images).astype(np.float32), "cls_targets": np.stack(cls),
               "box_targets": np.stack(box).astype(np.float32)}
