"""Pictures with one to three coloured boxes of three classes; truths per cell and anchor (x, y, w, h in cells, confidence, classes)."""
import numpy as np

SIZE, GRID, CLASSES = 32, 4, 3
ANCHORS = np.array([[0.7, 0.8], [1.6, 1.0], [1.2, 2.2]])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = 0.1 * rng.standard_normal((batch_size, SIZE, SIZE, 3))
        truth = np.zeros((batch_size, GRID, GRID, 3, 5 + CLASSES))
        for k in range(batch_size):
            for _ in range(rng.integers(1, 4)):
                kind, (w, h) = rng.integers(CLASSES), rng.uniform(0.5, 2.2, 2)
                x, y = rng.uniform(w / 2, GRID - w / 2), rng.uniform(h / 2, GRID - h / 2)
                both = np.minimum(ANCHORS, [w, h]).prod(1)
                best = int((both / (ANCHORS.prod(1) + w * h - both)).argmax())
                cell = truth[k, int(y), int(x), best]
                cell[:] = 0
                cell[:5], cell[5 + kind] = (x, y, w, h, 1.0), 1.0
                images[k, int(8 * (y - h / 2)):int(8 * (y + h / 2)) + 1, int(8 * (x - w / 2)):int(8 * (x + w / 2)) + 1, kind] += 1
        yield {"images": images.astype("float32"), "truth": truth.astype("float32")}
