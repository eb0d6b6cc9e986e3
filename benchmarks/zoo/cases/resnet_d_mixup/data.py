"""Mixed pictures of nine classes: each is a blend of two pictures with a blob and rings around it, both labels and the share of the
first are given along."""
import numpy as np

HEIGHT, WIDTH, CLASSES = 32, 28, 9


def _pictures(rng, labels):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    n = len(labels)
    far = np.hypot(y - rng.uniform(10, 22, (n, 1, 1)), x - rng.uniform(9, 19, (n, 1, 1)))
    rings = np.cos(far * (0.35 + 0.12 * labels[:, None, None])) * np.exp(-far / 12)
    colours = np.stack([np.cos(labels), np.sin(labels), np.cos(2.0 * labels)], 1) + rng.normal(0, 0.2, (n, 3))
    return rings[..., None] * colours[:, None, None, :] + 0.2 * rng.standard_normal((n, HEIGHT, WIDTH, 3))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        images = _pictures(rng, labels)
        partner = rng.permutation(batch_size)
        lam = rng.beta(0.8, 0.8, batch_size)
        share = lam[:, None, None, None]
        mixed = share * images + (1 - share) * images[partner]
        yield {"images": mixed.astype("float32"), "labels_a": labels.astype("int32"),
               "labels_b": labels[partner].astype("int32"), "lam": lam.astype("float32")}
