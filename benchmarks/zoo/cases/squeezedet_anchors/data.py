"""Street scenes in small: bright boxes of three kinds on a noisy ground. Every box is given to the anchor that overlaps it most, as
the reader of a detector does, so that masks, deltas, boxes and one-hot labels come with one row for each anchor."""
import numpy as np

HEIGHT, WIDTH = 32, 40
GRID_H, GRID_W = 4, 5
SHAPES = np.array([[7.0, 6.0], [12.0, 9.0], [9.0, 15.0]])  # widths and heights
CLASSES = 3


def anchors():
    """Returns [GRID_H * GRID_W * 3, 4]: centre x, centre y, width, height."""
    y, x = np.meshgrid((np.arange(GRID_H) + 1) * HEIGHT / (GRID_H + 1), (np.arange(GRID_W) + 1) * WIDTH / (GRID_W + 1), indexing="ij")
    centres = np.stack([x, y], axis=-1)[:, :, None].repeat(len(SHAPES), axis=2)
    shapes = np.broadcast_to(SHAPES, centres.shape[:3] + (2,))
    return np.concatenate([centres, shapes], axis=-1).reshape(-1, 4)


def overlaps(box, others):
    low = np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2)
    high = np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2)
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    return shared / (np.prod(box[2:]) + np.prod(others[:, 2:], axis=1) - shared)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    table = anchors()
    n = len(table)
    for _ in range(steps):
        images = rng.normal(0, 0.4, (batch_size, HEIGHT, WIDTH, 3)) + rng.normal(0, 0.3, (batch_size, 1, 1, 3))
        mask, deltas, boxes, labels = (np.zeros((batch_size, n, k)) for k in (1, 4, 4, CLASSES))
        for i in range(batch_size):
            for _ in range(rng.integers(1, 5)):
                kind = rng.integers(CLASSES)
                size = SHAPES[rng.integers(3)] * rng.uniform(0.75, 1.3, 2)
                centre = rng.uniform(size / 2, np.array([WIDTH, HEIGHT]) - size / 2)
                box = np.concatenate([centre, size])
                score = np.where(mask[i, :, 0] > 0, -1, overlaps(box, table))
                a = int(np.argmax(score))
                left, top = np.floor(centre - size / 2).astype(int)
                right, bottom = np.ceil(centre + size / 2).astype(int)
                images[i, max(top, 0):bottom, max(left, 0):right, kind] += 1.5
                mask[i, a], boxes[i, a], labels[i, a, kind] = 1, box, 1
                deltas[i, a] = np.concatenate([(centre - table[a, :2]) / table[a, 2:], np.log(size / table[a, 2:])])
        yield {"image_input": images.astype("float32"), "input_mask": mask.astype("float32"), "box_delta_input": deltas.astype("float32"),
               "box_input": boxes.astype("float32"), "labels": labels.astype("float32")}
