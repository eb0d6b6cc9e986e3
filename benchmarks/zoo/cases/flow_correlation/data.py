"""Two frames of smooth textures that move by a smooth flow; some pixels' flow is not known."""

import numpy as np

SIZE = 16


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype("float64")
    for _ in range(steps):
        wave = rng.uniform(-0.9, 0.9, size=(batch_size, 3, 4, 2))
        phase = rng.uniform(0, 2 * np.pi, size=(batch_size, 3, 4))

        def frame(x, y):
            angle = wave[..., 0, None, None] * x[:, None, None] + wave[..., 1, None, None] * y[:, None, None]
            return np.sin(angle + phase[..., None, None]).mean(axis=2).transpose(0, 2, 3, 1)

        a, b = rng.uniform(-2.5, 2.5, size=(2, batch_size, 1, 1)), rng.uniform(-0.1, 0.1, size=(2, batch_size, 1, 1))
        u = a[0] + b[0] * (y - SIZE / 2)
        v = a[1] + b[1] * (x - SIZE / 2)
        still = np.zeros((batch_size, 1, 1))
        first, second = frame(x + still, y + still), frame(x - u, y - v)
        noise = 0.02 * rng.standard_normal((2, batch_size, SIZE, SIZE, 3))
        yield {
            "first": (first + noise[0]).astype("float32"),
            "second": (second + noise[1]).astype("float32"),
            "flow": np.stack([u, v], axis=-1).astype("float32"),
            "valid": (rng.random((batch_size, SIZE, SIZE)) < 0.8).astype("float32"),
        }
