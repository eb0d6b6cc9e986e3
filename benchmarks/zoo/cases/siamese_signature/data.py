"""Pairs of scribbles: genuine pairs share the writer's curve, forged ones only its outline."""

import numpy as np


def _draw(rng, strokes):
    t = np.linspace(0, 1, 60)
    image = np.zeros((20, 28))
    wave = sum(a * np.sin(2 * np.pi * f * t + p) for a, f, p in strokes)
    y = np.clip(10 + 6 * wave + rng.normal(0, 0.4, t.shape), 0, 19).astype(int)
    x = np.clip(2 + 24 * t, 0, 27).astype(int)
    image[y, x] = 1.0
    return image + 0.05 * rng.standard_normal(image.shape)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        left, right = np.zeros((2, batch_size, 20, 28, 1), "float32")
        label = rng.integers(0, 2, size=batch_size)
        for i in range(batch_size):
            strokes = [(rng.uniform(0.3, 0.9), rng.uniform(1, 5), rng.uniform(0, 6)) for _ in range(2)]
            other = strokes if label[i] else [strokes[0], (rng.uniform(0.3, 0.9), rng.uniform(1, 5), rng.uniform(0, 6))]
            left[i, ..., 0], right[i, ..., 0] = _draw(rng, strokes), _draw(rng, other)
        yield {"left": left, "right": right, "label": label.astype("float32")}
