"""Unpaired pictures of two domains in [-1, 1], discs (A) and bars (B) in colours of their own, and styles drawn for each."""
import numpy as np

SIZE, STYLE_DIM = 16, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        a = np.empty((batch_size, SIZE, SIZE, 3))
        b = np.empty((batch_size, SIZE, SIZE, 3))
        for i in range(batch_size):
            cy, cx = rng.uniform(4, 12, size=2)
            disc = 1 / (1 + np.exp((y - cy) ** 2 + (x - cx) ** 2 - rng.uniform(6, 20)))
            a[i] = rng.uniform(-0.9, 0.0, 3) + disc[..., None] * rng.uniform(0.2, 0.9, 3)
            bar = 0.5 + 0.5 * np.sin((y * np.cos(cy) + x * np.sin(cy)) * rng.uniform(0.6, 1.2))
            b[i] = rng.uniform(0.0, 0.9, 3) - bar[..., None] * rng.uniform(0.2, 0.9, 3)
        noise = rng.normal(0, 0.05, size=(2,) + a.shape)
        yield {"domain_a": np.clip(a + noise[0], -1, 1).astype("float32"), "domain_b": np.clip(b + noise[1], -1, 1).astype("float32"),
               "style_a": rng.standard_normal((batch_size, 1, 1, STYLE_DIM)).astype("float32"),
               "style_b": rng.standard_normal((batch_size, 1, 1, STYLE_DIM)).astype("float32")}
