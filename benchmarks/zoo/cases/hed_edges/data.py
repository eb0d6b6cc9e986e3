"""Pictures of overlapping flat shapes in BGR, 0..255, and the outlines of what is visible of them. Some
pictures show much more outline than others."""
import numpy as np

SIZE = 24


def scene(rng):
    y, x = np.mgrid[:SIZE, :SIZE]
    region = np.zeros((SIZE, SIZE), int)
    for k in range(1, rng.integers(2, 6)):
        cy, cx = rng.uniform(4, SIZE - 4, 2)
        a, b = rng.uniform(3, 8, 2)
        inside = (np.abs(y - cy) < a) & (np.abs(x - cx) < b) if rng.random() < 0.5 else ((y - cy) / a) ** 2 + ((x - cx) / b) ** 2 < 1
        region[inside] = k
    edges = np.zeros((SIZE, SIZE), bool)
    edges[:, 1:] |= region[:, 1:] != region[:, :-1]
    edges[1:, :] |= region[1:, :] != region[:-1, :]
    colours = rng.uniform(40, 215, (6, 3))
    image = colours[region] + 6 * rng.standard_normal((SIZE, SIZE, 3))
    return np.clip(image, 0, 255), edges


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, edges = zip(*[scene(rng) for _ in range(batch_size)])
        yield {"image": np.stack(images).astype(np.float32), "edgemap": np.stack(edges).astype(np.int32)}
