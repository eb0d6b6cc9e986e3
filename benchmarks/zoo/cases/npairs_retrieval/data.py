"""Pairs of pictures of the same product: every product has a pattern of its own, every picture its shift and noise."""
import numpy as np

SIZE, PRODUCTS = 16, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    patterns = rng.normal(0, 1, (PRODUCTS, 4, 4, 3)).repeat(4, 1).repeat(4, 2)

    def picture(labels):
        moved = np.stack([np.roll(patterns[k], rng.integers(-2, 3, 2), (0, 1)) for k in labels])
        return (moved + 0.5 * rng.standard_normal(moved.shape)).astype("float32")

    for _ in range(steps):
        labels = rng.integers(0, PRODUCTS, batch_size)
        yield {"anchor": picture(labels), "positive": picture(labels), "label": labels.astype("int32")}
