"""Oriented strokes in six classes. Examples weigh by the rarity of their class; a few are fillers of weight zero.
The mask of the dropout in front of the classifier comes along."""
import numpy as np

SIZE, CLASSES, FEATURES, KEEP = 16, 6, 20, 0.75
FREQUENCY = np.array([0.34, 0.24, 0.16, 0.12, 0.08, 0.06])


def stroke(rng, kind):
    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    angle = np.pi * kind / CLASSES + 0.12 * rng.standard_normal()
    along = x * np.cos(angle) + y * np.sin(angle) - rng.uniform(-2, 2)
    across = -x * np.sin(angle) + y * np.cos(angle) - rng.uniform(-3, 3)
    ink = np.exp(-(across / 1.5) ** 2) * (np.abs(along) < 6)
    colour = np.array([1.0, 0.4 * (kind % 2), -0.3]) + 0.2 * rng.standard_normal(3)
    return ink[..., None] * colour * rng.uniform(0.7, 1.4) + 0.15 * rng.standard_normal((SIZE, SIZE, 3))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.choice(CLASSES, size=batch_size, p=FREQUENCY)
        weights = (FREQUENCY.mean() / FREQUENCY[labels]) ** 0.5
        weights[rng.random(batch_size) < 0.12] = 0.0
        mask = (rng.random((batch_size, FEATURES)) < KEEP) / KEEP
        yield {"images": np.stack([stroke(rng, k) for k in labels]).astype(np.float32), "labels": labels.astype(np.int64),
               "weights": weights.astype(np.float32), "dropout_mask": mask.astype(np.float32)}
