"""Pictures with up to five coloured boxes, and the targets at a quarter of their size: class heatmaps with a Gaussian around every
centre, flat indices of the centres, what the quarter rounds off, sizes, and which of the five are there."""

import numpy as np

HEIGHT, WIDTH, STRIDE, CLASSES, MAX_OBJECTS = 32, 24, 4, 3, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    rows, columns = HEIGHT // STRIDE, WIDTH // STRIDE
    y, x = np.mgrid[0:rows, 0:columns]
    colours = np.array([[200, 60, 40], [50, 180, 70], [60, 90, 210]])
    for _ in range(steps):
        images = rng.integers(70, 140, size=(batch_size, HEIGHT, WIDTH, 3)).astype("float32")
        heatmaps = np.zeros((batch_size, rows, columns, CLASSES), "float32")
        indices = np.zeros((batch_size, MAX_OBJECTS), "int32")
        offsets = np.zeros((batch_size, MAX_OBJECTS, 2), "float32")
        sizes = np.zeros((batch_size, MAX_OBJECTS, 2), "float32")
        present = np.zeros((batch_size, MAX_OBJECTS), "float32")
        for i in range(batch_size):
            count = rng.integers(1, MAX_OBJECTS + 1)
            cells = rng.choice(rows * columns, size=count, replace=False)
            for j, cell in enumerate(cells):
                label = rng.integers(CLASSES)
                rest = rng.uniform(0, 1, size=2)
                centre_x, centre_y = (cell % columns + rest[0]) * STRIDE, (cell // columns + rest[1]) * STRIDE
                w, h = rng.uniform(4, 12), rng.uniform(5, 16)
                top, left = max(int(centre_y - h / 2), 0), max(int(centre_x - w / 2), 0)
                images[i, top : int(centre_y + h / 2) + 1, left : int(centre_x + w / 2) + 1] = colours[label]
                gaussian = np.exp(-((x - cell % columns) ** 2 + (y - cell // columns) ** 2) / 1.6)
                heatmaps[i, :, :, label] = np.maximum(heatmaps[i, :, :, label], gaussian)
                indices[i, j] = cell
                offsets[i, j] = rest
                sizes[i, j] = w / STRIDE, h / STRIDE
                present[i, j] = 1
        images += rng.normal(0, 8, size=images.shape).astype("float32")
        yield {"images": images, "heatmaps": heatmaps, "indices": indices, "offsets": offsets, "sizes": sizes, "present": present}
