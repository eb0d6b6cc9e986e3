"""Small grey glyphs in five levels, of four unbalanced classes; part of each canvas lies outside of the scanned page."""
import numpy as np

HEIGHT, WIDTH, LEVELS, CLASSES = 10, 9, 5, 4


def glyph(rng, label):
    rows, cols = np.mgrid[0:HEIGHT, 0:WIDTH]
    y, x = rng.uniform(3, HEIGHT - 4), rng.uniform(3, WIDTH - 4)
    if label == 0:
        ink = np.abs(cols - x) < 1.5
    elif label == 1:
        ink = np.abs(rows - y) < 1.5
    elif label == 2:
        ink = np.abs(np.hypot(rows - y, cols - x) - 2.5) < 1.0
    else:
        ink = np.abs((rows - y) - (cols - x)) < 1.5
    grey = ink * rng.uniform(2.0, 4.0) + rng.normal(0, 0.45, (HEIGHT, WIDTH)) + 0.08 * rows
    return np.clip(np.round(grey), 0, LEVELS - 1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.choice(CLASSES, size=batch_size, p=[0.45, 0.3, 0.15, 0.1]).astype("int32")
        images = np.stack([glyph(rng, k) for k in labels])[..., None]
        valid = np.ones((batch_size, HEIGHT, WIDTH))
        for i in range(batch_size):
            valid[i, rng.integers(HEIGHT - 3, HEIGHT + 1):] = 0
            valid[i, :, rng.integers(WIDTH - 3, WIDTH + 1):] = 0
        yield {"images": (images * valid[..., None]).astype("float32"), "labels": labels, "valid": valid.astype("float32")}
