"""Regions pooled from a pyramid's features: a blob per region whose channels tell its class; a third is background."""

import numpy as np

REGIONS, CHANNELS, CLASSES = 6, 10, 7
BOX, MASK = (5, 6), (7, 9)


def blobs(rng, size, centre, radius, signature):
    rows = (np.arange(size[0]) + 0.5) / size[0]
    columns = (np.arange(size[1]) + 0.5) / size[1]
    far = ((rows[:, None] - centre[..., None, None, 0]) / radius[..., None, None, 0]) ** 2
    far = far + ((columns[None, :] - centre[..., None, None, 1]) / radius[..., None, None, 1]) ** 2
    features = np.exp(-far)[..., None] * signature[..., None, None, :]
    return features + 0.3 * rng.standard_normal(features.shape), far < 1


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    signatures = 1.5 * rng.standard_normal((CLASSES, CHANNELS))
    for _ in range(steps):
        shape = (batch_size, REGIONS)
        labels = np.where(rng.random(shape) < 0.35, 0, rng.integers(1, CLASSES, size=shape))
        labels[:, 0] = rng.integers(1, CLASSES, size=batch_size)
        centre = rng.uniform(0.3, 0.7, size=(*shape, 2))
        radius = rng.uniform(0.25, 0.5, size=(*shape, 2))
        box_features, _ = blobs(rng, BOX, centre, radius, signatures[labels])
        mask_features, _ = blobs(rng, MASK, centre, radius, signatures[labels])
        _, masks = blobs(rng, (2 * MASK[0], 2 * MASK[1]), centre, radius, signatures[labels])
        deltas = np.concatenate([(centre - 0.5) / 0.2, np.log(2 * radius) / 0.4], axis=-1)
        yield {
            "box_features": box_features.astype("float32"),
            "mask_features": mask_features.astype("float32"),
            "gt_labels": labels.astype("int32"),
            "gt_deltas": (deltas + 0.1 * rng.standard_normal(deltas.shape)).astype("float32"),
            "gt_masks": masks.astype("float32"),
        }
