"""Street-like scenes: sky, road, verge, some cars and rarely a sign; unlabelled pixels (255) along borders and in patches."""
import numpy as np

HEIGHT, WIDTH, IGNORE = 16, 24, 255
COLOURS = np.array([[140, 170, 210], [105, 100, 100], [90, 135, 70], [170, 60, 55], [215, 200, 60]], float)


def scene(rng):
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    horizon = rng.integers(4, 9)
    labels = np.where(y < horizon, 0, 2)
    middle, slope = rng.uniform(8, 16), rng.uniform(0.6, 1.3)
    labels[(y >= horizon) & (np.abs(x - middle) < 2 + slope * (y - horizon))] = 1
    for _ in range(rng.poisson(0.9)):
        top, left = rng.integers(horizon - 2, HEIGHT - 3), rng.integers(0, WIDTH - 5)
        labels[top:top + rng.integers(2, 5), left:left + rng.integers(3, 7)] = 3
    if rng.random() < 0.35:
        top, left = rng.integers(1, horizon), rng.integers(0, WIDTH - 2)
        labels[top:top + 3, left:left + 2] = 4
    light = rng.normal(0, 18)
    image = COLOURS[labels] + light + 20 * rng.standard_normal((HEIGHT, WIDTH, 3)) - 1.5 * (y[..., None] - 8)
    edges = np.zeros_like(labels, bool)
    edges[1:] |= labels[1:] != labels[:-1]
    edges[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    labels = labels.copy()
    labels[edges & (rng.random(labels.shape) < 0.6)] = IGNORE
    if rng.random() < 0.3:
        labels[:, WIDTH - rng.integers(1, 6):] = IGNORE
    return np.clip(np.round(image), 0, 255), labels


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, labels = zip(*(scene(rng) for _ in range(batch_size)))
        yield {"images": np.stack(images).astype(np.float32), "labels": np.stack(labels).astype(np.int32)}
