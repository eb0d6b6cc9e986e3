"""Luminance patches of stripes, edges and blobs, 32 x 32 in [0, 1], and what a blurred subsampling to 8 x 8 leaves of them."""
import numpy as np

SIZE, SCALE = 32, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    for _ in range(steps):
        hr = np.empty((batch_size, SIZE, SIZE, 1))
        for b in range(batch_size):
            angle, freq = rng.uniform(0, np.pi), rng.uniform(2, 9)
            u = np.cos(angle) * x + np.sin(angle) * y
            patch = 0.45 + 0.2 * np.sin(2 * np.pi * freq * u + rng.uniform(0, 6))
            patch = patch + rng.uniform(-0.25, 0.25) * (u > rng.uniform(0.1, 0.7))
            cy, cx, r = rng.uniform(0.2, 0.8, 2).tolist() + [rng.uniform(0.05, 0.3)]
            patch = patch + rng.uniform(-0.3, 0.3) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * r * r))
            hr[b, ..., 0] = patch
        hr = np.clip(hr + rng.normal(0, 0.01, hr.shape), 0, 1)
        padded = np.pad(hr, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        blurred = sum(padded[:, i:i + SIZE, j:j + SIZE] * w for i, a in enumerate((1, 2, 1)) for j, c in enumerate((1, 2, 1)) for w in [a * c / 16])
        lr = blurred[:, 1::SCALE, 1::SCALE]
        yield {"lr": lr.astype(np.float32), "hr": hr.astype(np.float32)}
