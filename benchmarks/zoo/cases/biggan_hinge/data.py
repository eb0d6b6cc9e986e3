"""Small pictures of five kinds of thing (stripes two ways, a ring, a disc, a checkerboard), 16 x 16, in [-1, 1], and latents."""
import numpy as np

SIZE, KINDS, LATENT = 16, 5, 12


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIZE, :SIZE]
    for _ in range(steps):
        labels = rng.integers(0, KINDS, batch_size).astype("int32")
        images = np.empty((batch_size, SIZE, SIZE, 3))
        for i, kind in enumerate(labels):
            phase, period = rng.uniform(0, 6), rng.uniform(3, 6)
            cy, cx, r = rng.uniform(5, 11), rng.uniform(5, 11), rng.uniform(3, 6)
            distance = np.hypot(y - cy, x - cx)
            shape = [np.sin(2 * np.pi * x / period + phase), np.sin(2 * np.pi * y / period + phase),
                     1 - abs(distance - r), np.clip(r - distance, -1, 1),
                     np.sign(np.sin(2 * np.pi * x / period + phase) * np.sin(2 * np.pi * y / period))][kind]
            images[i] = np.tanh(shape[..., None] * rng.uniform(0.2, 1, 3) + rng.normal(0, 0.3, 3))
        images += rng.normal(0, 0.02, images.shape)
        z = rng.normal(0, 1, (batch_size, LATENT))
        yield {"images": np.clip(images, -1, 1).astype("float32"), "labels": labels, "z": z.astype("float32")}
