"""Aligned colour crops of ten people, as bytes in floats: every person has a pattern of blobs of their own, under changing light."""
import numpy as np

SIZE, PEOPLE = 31, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1.0)
    centres = rng.uniform(0.1, 0.9, size=(PEOPLE, 5, 2))
    colours = rng.uniform(-90, 90, size=(PEOPLE, 5, 3))
    for _ in range(steps):
        labels = rng.integers(0, PEOPLE, size=batch_size)
        at = centres[labels] + rng.normal(0, 0.03, size=(batch_size, 5, 2))
        distance = (y - at[..., 0, None, None]) ** 2 + (x - at[..., 1, None, None]) ** 2
        images = 120 + np.einsum("bkyx,bkc->byxc", np.exp(-distance / 0.02), colours[labels])
        images = images * rng.uniform(0.7, 1.3, size=(batch_size, 1, 1, 1)) + rng.normal(0, 12, size=images.shape)
        yield {"images": np.clip(np.rint(images), 0, 255).astype("float32"), "labels": labels.astype("int32")}
