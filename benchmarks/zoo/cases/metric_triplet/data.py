"""Glyphs of strokes: four identities per shard, two views of each, next to each other."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    glyphs = np.random.default_rng(3).random((20, 7, 7)) < 0.35
    for _ in range(steps):
        ids = []
        for _ in range(batch_size // 8):
            ids += list(np.repeat(rng.permutation(20)[:4], 2))
        ids = np.array(ids)
        images = np.kron(glyphs[ids], np.ones((2, 2)))
        shift = rng.integers(-1, 2, size=(batch_size, 2))
        images = np.stack([np.roll(image, tuple(s), (0, 1)) for image, s in zip(images, shift)])
        images = images + 0.3 * rng.standard_normal(images.shape)
        yield {"images": images[..., None].astype("float32"), "identities": ids.astype("int32")}
