"""Lines of made-up writing, columns first: a glyph over some columns per letter, blanks between, empty behind the end.

A frame is two columns wide; its label is the letter there, or 0 for blank."""

import numpy as np

COLUMNS, ROWS, LETTERS = 24, 12, 8
FRAMES = COLUMNS // 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    glyphs = rng.random((LETTERS, 4, ROWS)) < 0.4
    for _ in range(steps):
        images = np.zeros((batch_size, COLUMNS, ROWS))
        labels = np.zeros((batch_size, FRAMES), "int32")
        lengths = rng.integers(5, FRAMES + 1, size=batch_size)
        for n, length in enumerate(lengths):
            frame = rng.integers(0, 2)
            while frame + 2 <= length:
                letter = rng.integers(0, LETTERS)
                images[n, 2 * frame : 2 * frame + 4] = glyphs[letter]
                labels[n, frame : frame + 2] = letter + 1
                frame += 2 + rng.integers(0, 2)
        images += 0.2 * rng.standard_normal(images.shape)
        yield {"images": images.astype("float32"), "labels": labels, "lengths": lengths.astype("int32")}
