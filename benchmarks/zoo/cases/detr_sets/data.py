"""Pictures with up to three coloured rectangles, padded to a common size, and the targets already matched to the queries: per query a
class, the last of which is "no object", and a box as centre and size, relative to the padded picture's valid part."""
import numpy as np

HEIGHT, WIDTH, QUERIES, CLASSES = 24, 32, 5, 4
COLOURS = np.array([[1.5, 0, 0], [0, 1.5, 0], [0, 0, 1.5], [1.2, 1.2, 0]])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = np.zeros((batch_size, HEIGHT, WIDTH, 3))
        padded = np.ones((batch_size, HEIGHT, WIDTH))
        classes = np.full((batch_size, QUERIES), CLASSES)
        boxes = np.tile([0.5, 0.5, 1.0, 1.0], (batch_size, QUERIES, 1))
        for i in range(batch_size):
            height, width = int(rng.integers(15, HEIGHT + 1)), int(rng.integers(18, WIDTH + 1))
            padded[i, :height, :width] = 0
            picture = rng.normal(0, 0.3, (height, width, 3))
            for query in rng.permutation(QUERIES)[:int(rng.integers(1, 4))]:
                label = int(rng.integers(CLASSES))
                w, h = rng.uniform(0.2, 0.6, 2)
                x, y = rng.uniform(w / 2, 1 - w / 2), rng.uniform(h / 2, 1 - h / 2)
                rows = slice(int((y - h / 2) * height), int((y + h / 2) * height) + 1)
                columns = slice(int((x - w / 2) * width), int((x + w / 2) * width) + 1)
                picture[rows, columns] += COLOURS[label]
                classes[i, query] = label
                boxes[i, query] = [x, y, w, h]
            images[i, :height, :width] = picture
        yield {"images": images.astype("float32"), "padded": padded.astype("float32"), "classes": classes.astype("int32"),
               "boxes": boxes.astype("float32")}
