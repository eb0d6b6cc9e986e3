import numpy as np

HEIGHT, WIDTH, COLUMNS, GLYPHS = 16, 24, 11, 8  # class 0 is the gap between glyphs


def batches(steps, batch_size, seed):
    """Lines of glyphs on paper of varying brightness; lines end early and are filled up with nearly white."""
    random = np.random.default_rng(seed)
    shapes = random.random([GLYPHS, 8, 4]) < 0.5
    frequency = 1 / np.arange(1, GLYPHS + 1)
    frequency /= frequency.sum()
    for _ in range(steps):
        images = random.normal(240, 3, [batch_size, HEIGHT, WIDTH, 1])
        labels = np.zeros([batch_size, COLUMNS])
        widths = random.choice([10, 13, 16, 18, 21, 24], batch_size, p=[.1, .1, .2, .2, .2, .2])
        for example, width in enumerate(widths):
            ink, paper = random.uniform(0, 90), random.uniform(170, 240)
            line, truth = np.full([HEIGHT, width], paper), np.zeros(WIDTH)
            at, top = random.integers(0, 2), random.integers(1, 7)
            while at + 4 <= width:
                glyph = random.choice(GLYPHS, p=frequency)
                line[top:top + 8, at:at + 4][shapes[glyph]] = ink
                truth[at:at + 4] = glyph + 1
                at += 4 + random.integers(0, 3)
            images[example, :, :width, 0] = np.clip(line + random.normal(0, 8, line.shape), 0, 255)
            labels[example] = truth[1:2 * COLUMNS:2]
        yield {"images": images.astype(np.float32), "widths": widths.astype(np.int32), "labels": labels.astype(np.int32)}
