"""Bright rectangles on noise, and the anchor targets of a region proposal network: stride 4, three anchors a place."""

import numpy as np

SIZE, STRIDE = 24, 4
ANCHORS = np.array([[8.0, 8.0], [12.0, 6.0], [6.0, 12.0]])  # width, height


def all_anchors():
    """Boxes [H, W, A, 4] as x1, y1, x2, y2."""
    n = SIZE // STRIDE
    y, x = np.mgrid[0:n, 0:n] * STRIDE + STRIDE / 2.0
    centre = np.stack([x, y], -1)[:, :, None, :]
    return np.concatenate([centre - ANCHORS / 2, centre + ANCHORS / 2], -1)


def overlaps(boxes, gt):
    low = np.maximum(boxes[..., :2], gt[:2])
    high = np.minimum(boxes[..., 2:], gt[2:])
    inter = np.prod(np.maximum(high - low, 0.0), -1)
    area = np.prod(boxes[..., 2:] - boxes[..., :2], -1)
    return inter / (area + np.prod(gt[2:] - gt[:2]) - inter)


def targets_of(anchors, gt, rng):
    iou = overlaps(anchors, gt)
    labels = np.full(iou.shape, -1)
    labels[iou < 0.2] = 0
    labels[iou > 0.45] = 1
    labels[iou == iou.max()] = 1
    background = np.flatnonzero(labels == 0)
    keep = max(1, 24 - int((labels == 1).sum()))
    labels.flat[rng.permutation(background)[keep:]] = -1
    wh = anchors[..., 2:] - anchors[..., :2]
    centre = (anchors[..., 2:] + anchors[..., :2]) / 2
    box = np.concatenate([((gt[2:] + gt[:2]) / 2 - centre) / wh, np.log((gt[2:] - gt[:2]) / wh)], -1)
    inside = np.repeat((labels == 1)[..., None], 4, -1).astype(float)
    outside = np.repeat((labels >= 0)[..., None], 4, -1) / float((labels >= 0).sum())
    return labels, box * inside, inside, outside


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    anchors = all_anchors()
    h, w, a, _ = anchors.shape
    for _ in range(steps):
        images = rng.uniform(0.0, 0.6, (batch_size, SIZE, SIZE, 3))
        rows = []
        for n in range(batch_size):
            size = rng.uniform(6, 13, 2)
            start = rng.uniform(0, SIZE - size)
            gt = np.concatenate([start, start + size])
            x1, y1, x2, y2 = np.round(gt).astype(int)
            images[n, y1:y2, x1:x2] += rng.uniform(0.2, 0.9, 3)
            rows.append(targets_of(anchors, gt, rng))
        labels, box, inside, outside = (np.stack(column) for column in zip(*rows))
        yield {
            "images": images.astype("float32"),
            # as the anchor target layer gives them: [N, 1, A * H, W]
            "rpn_labels": labels.transpose(0, 3, 1, 2).reshape(batch_size, 1, a * h, w).astype("int32"),
            "rpn_bbox_targets": box.reshape(batch_size, h, w, 4 * a).astype("float32"),
            "rpn_bbox_inside_weights": inside.reshape(batch_size, h, w, 4 * a).astype("float32"),
            "rpn_bbox_outside_weights": outside.reshape(batch_size, h, w, 4 * a).astype("float32"),
        }
