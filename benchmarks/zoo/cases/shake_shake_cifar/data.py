"""Small colour pictures of six kinds of pattern, standardised, and the draws that mix the branches of each block."""
import numpy as np

SIZE, CLASSES, BLOCKS, BRANCHES = 16, 6, 3, 2


def picture(rng, kind):
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    phase = rng.uniform(0, 2 * np.pi)
    if kind < 3:
        wave = np.sin(2 * np.pi * (1 + kind) * (x if kind % 2 else y) + phase)
    else:
        cy, cx = rng.uniform(0.3, 0.7, 2)
        wave = np.cos(2 * np.pi * (kind - 1) * np.hypot(y - cy, x - cx) + phase)
    colour = 0.6 + 0.4 * np.cos(kind + np.arange(3) * 2.1)
    image = wave[..., None] * colour + 0.4 * rng.standard_normal((SIZE, SIZE, 3))
    return (image - image.mean()) / image.std()


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        yield {
            "images": np.stack([picture(rng, k) for k in labels]).astype(np.float32),
            "labels": labels.astype(np.int32),
            "rand_forward": rng.uniform(0.05, 1.0, (batch_size, BLOCKS, BRANCHES)).astype(np.float32),
            "rand_backward": rng.uniform(0.05, 1.0, (batch_size, BLOCKS, BRANCHES)).astype(np.float32),
        }
