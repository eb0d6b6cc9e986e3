"""Pictures of 32 grey levels a channel with a bright box; the noise of the latents; the number of the step."""

import numpy as np

HEIGHT, WIDTH, CHANNELS, LATENTS = 16, 12, 3, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    for step in range(steps):
        top = rng.integers(1, 10, size=(batch_size, 1, 1))
        left = rng.integers(1, 7, size=(batch_size, 1, 1))
        size = rng.integers(3, 6, size=(batch_size, 1, 1))
        box = (y >= top) & (y < top + size) & (x >= left) & (x < left + size)
        colour = rng.uniform(8, 26, size=(batch_size, 1, 1, CHANNELS))
        images = 5 + box[..., None] * colour + rng.normal(0, 1.5, size=(batch_size, HEIGHT, WIDTH, CHANNELS))
        yield {
            "images": np.clip(np.floor(images), 0, 31).astype("float32"),
            "noise": rng.standard_normal((batch_size, LATENTS)).astype("float32"),
            "step": np.full(batch_size, step, "float32"),
        }
