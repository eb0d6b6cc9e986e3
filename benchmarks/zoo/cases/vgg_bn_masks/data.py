"""Grey digits of strokes in colour, ten classes, with the masks of dropout (0 or 2) for the two hidden dense layers."""
import numpy as np

HEIGHT, WIDTH, CLASSES, HIDDEN = 16, 24, 10, (20, 24)

STROKES = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abfgcd"]


def _digit(label):
    picture = np.zeros((HEIGHT, WIDTH))
    top, middle, bottom, left, right = 2, 7, 12, 8, 15
    lines = {"a": (top, left, top, right), "b": (top, right, middle, right), "c": (middle, right, bottom, right),
             "d": (bottom, left, bottom, right), "e": (middle, left, bottom, left), "f": (top, left, middle, left),
             "g": (middle, left, middle, right)}
    for stroke in STROKES[label]:
        y0, x0, y1, x1 = lines[stroke]
        picture[y0:y1 + 2, x0:x1 + 2] = 1
    return picture


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    digits = np.stack([_digit(label) for label in range(CLASSES)])
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch_size)
        shifts = rng.integers(-2, 3, (batch_size, 2))
        pictures = np.stack([np.roll(digits[k], tuple(s), (0, 1)) for k, s in zip(labels, shifts)])
        colours = rng.uniform(0.3, 1.5, (batch_size, 1, 1, 3))
        images = pictures[..., None] * colours + 0.3 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        masks = [2.0 * (rng.random((batch_size, n)) < 0.5) for n in HIDDEN]
        yield {"images": images.astype("float32"), "labels": labels.astype("int32"),
               "keep_fc1": masks[0].astype("float32"), "keep_fc2": masks[1].astype("float32")}
