"""RGB pictures in 0..255: seven kinds of texture in seven tints, some kinds much rarer than others."""
import numpy as np

SIZE, CLASSES = 22, 7
FREQUENCY = np.array([0.30, 0.22, 0.16, 0.12, 0.09, 0.07, 0.04])


def picture(rng, kind):
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    angle = np.pi * kind / CLASSES + 0.1 * rng.standard_normal()
    waves = np.sin(2 * np.pi * (2 + kind % 3) * (x * np.cos(angle) + y * np.sin(angle)) + rng.uniform(0, 2 * np.pi))
    cy, cx, r = rng.uniform(0.25, 0.75, 2).tolist() + [rng.uniform(0.15, 0.35)]
    disc = ((y - cy) ** 2 + (x - cx) ** 2 < r * r) * (1.0 if kind % 2 else -1.0)
    tint = np.array([np.cos(kind), np.sin(kind), np.cos(2 * kind + 1)])
    grey = 120 + 35 * waves + 30 * disc + rng.normal(0, 15)
    image = grey[..., None] + 30 * tint + 12 * rng.standard_normal((SIZE, SIZE, 3))
    return np.clip(np.round(image), 0, 255)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.choice(CLASSES, size=batch_size, p=FREQUENCY)
        yield {"images": np.stack([picture(rng, k) for k in labels]).astype(np.float32), "labels": labels.astype(np.int32)}
