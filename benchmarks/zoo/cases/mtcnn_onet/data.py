"""Crops for the last stage of a face cascade, with pixels from 0 to 255: faces (1), backgrounds (0), partial faces (-1) and faces with
five landmarks (-2). What a crop has no label for is zero."""
import numpy as np

SIZE = 32
POINTS = np.array([[0.3, 0.38], [0.7, 0.38], [0.5, 0.58], [0.35, 0.76], [0.65, 0.76]])
KINDS = np.array([1, 1, 0, 0, 0, -1, -1, -2])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1)
    for _ in range(steps):
        label = np.concatenate([rng.permutation(KINDS) for _ in range(batch_size // len(KINDS))])
        images = rng.normal(110, 25, (batch_size, SIZE, SIZE, 3)) + rng.normal(0, 20, (batch_size, 1, 1, 3))
        roi, landmark = np.zeros((batch_size, 4)), np.zeros((batch_size, 10))
        for i, kind in enumerate(label):
            if kind == 0:
                continue
            shift = rng.normal(0, 0.22 if kind == -1 else 0.06, 4)
            low, size = shift[:2], 1 + shift[2:] - shift[:2]
            points = low + POINTS * size + rng.normal(0, 0.02, POINTS.shape)
            skin = ((columns - low[0] - size[0] / 2) / size[0]) ** 2 + ((rows - low[1] - size[1] / 2) / size[1]) ** 2 < 0.22
            images[i][skin] += np.array([60, 25, 5])
            for x, y in points:
                images[i] -= 90 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 0.006)[..., None]
            if kind == -2:
                landmark[i] = points.reshape(-1)
            else:
                roi[i] = shift
        yield {"image": np.clip(images, 0, 255).round().astype("float32"), "label": label.astype("float32"),
               "roi": roi.astype("float32"), "landmark": landmark.astype("float32")}
