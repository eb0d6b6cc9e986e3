"""Pictures with one or two bright boxes, anchors matched to them: 0 is background, -1 is ignored."""

import numpy as np


def anchors():
    boxes = []
    for cells, scale in ((8, 0.25), (4, 0.5)):
        for row in range(cells):
            for column in range(cells):
                for ratio in (1.0, 2.0, 0.5):
                    boxes.append([(row + 0.5) / cells, (column + 0.5) / cells, scale / ratio**0.5, scale * ratio**0.5])
    return np.array(boxes)


def overlap(a, b):
    lo = np.maximum(a[:, None, :2] - a[:, None, 2:] / 2, b[None, :, :2] - b[None, :, 2:] / 2)
    hi = np.minimum(a[:, None, :2] + a[:, None, 2:] / 2, b[None, :, :2] + b[None, :, 2:] / 2)
    common = np.prod(np.maximum(hi - lo, 0), axis=2)
    return common / (np.prod(a[:, 2:], 1)[:, None] + np.prod(b[:, 2:], 1)[None, :] - common)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    prior = anchors()
    grid = (np.arange(16) + 0.5) / 16
    for _ in range(steps):
        images = 0.2 * rng.standard_normal((batch_size, 16, 16, 3))
        classes = np.zeros((batch_size, len(prior)))
        offsets = np.zeros((batch_size, len(prior), 4))
        for n in range(batch_size):
            count = rng.integers(1, 3)
            boxes = np.concatenate([rng.uniform(0.3, 0.7, (count, 2)), rng.uniform(0.2, 0.6, (count, 2))], axis=1)
            kinds = rng.integers(1, 4, size=count)
            for box, kind in zip(boxes, kinds):
                inside = (abs(grid - box[0]) < box[2] / 2)[:, None] & (abs(grid - box[1]) < box[3] / 2)[None, :]
                images[n, inside, kind - 1] += 1
            iou = overlap(prior, boxes)
            best, score = iou.argmax(1), iou.max(1)
            classes[n] = np.where(score > 0.45, kinds[best], np.where(score > 0.35, -1, 0))
            offsets[n, :, :2] = (boxes[best, :2] - prior[:, :2]) / prior[:, 2:] / 0.1
            offsets[n, :, 2:] = np.log(boxes[best, 2:] / prior[:, 2:]) / 0.2
        yield {
            "images": images.astype("float32"),
            "gclasses": classes.astype("int32"),
            "glocalisations": offsets.astype("float32"),
        }
