"""Coloured blobs at seven key points, Gaussian heatmaps at half the resolution, and how visible each point is (0, 0.5, 1)."""

import numpy as np

HEIGHT, WIDTH, JOINTS = 32, 24, 7


def gaussians(centres, height, width, sigma):
    y, x = np.mgrid[0:height, 0:width]
    d = (y[..., None] - centres[:, None, None, :, 0]) ** 2 + (x[..., None] - centres[:, None, None, :, 1]) ** 2
    return np.exp(-d / (2 * sigma ** 2))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    colours = rng.uniform(-1, 1, size=(JOINTS, 3))
    for _ in range(steps):
        centres = rng.uniform(0, 1, size=(batch_size, JOINTS, 2)) * (HEIGHT - 1, WIDTH - 1)
        visible = rng.choice([0.0, 0.5, 1.0], p=[0.25, 0.25, 0.5], size=(batch_size, JOINTS))
        blobs = gaussians(centres, HEIGHT, WIDTH, 2.0) * visible[:, None, None, :]
        images = blobs @ colours + 0.2 * rng.standard_normal((batch_size, HEIGHT, WIDTH, 3))
        heatmaps = gaussians(centres / 2, HEIGHT // 2, WIDTH // 2, 1.5)
        yield {
            "images": images.astype("float32"),
            "heatmaps": heatmaps.astype("float32"),
            "visibility": visible.astype("float32"),
        }
