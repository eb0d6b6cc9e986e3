"""Textures of four kinds (stripes across, stripes down, checks, blobs) in random colours, 16 x 16; one half to train the weights
on, one to train the architecture on."""
import numpy as np

SIZE, CLASSES = 16, 4


def textures(rng, n):
    y, x = np.mgrid[:SIZE, :SIZE]
    labels = rng.choice(CLASSES, n, p=[0.35, 0.3, 0.2, 0.15]).astype(np.int32)
    images = np.empty((n, SIZE, SIZE, 3))
    for i, label in enumerate(labels):
        f, phase = rng.uniform(0.6, 1.8), rng.uniform(0, 6, 2)
        if label == 0:
            pattern = np.sin(f * y + phase[0])
        elif label == 1:
            pattern = np.sin(f * x + phase[0])
        elif label == 2:
            pattern = np.sign(np.sin(f * y + phase[0]) * np.sin(f * x + phase[1]))
        else:
            pattern = sum(np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 8) for cy, cx in rng.uniform(0, SIZE, (4, 2))) * 2 - 1
        images[i] = rng.normal(0, 0.4, 3) + pattern[..., None] * rng.uniform(0.3, 1.0, 3)
    return (images + rng.normal(0, 0.15, images.shape)).astype(np.float32), labels


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, labels = textures(rng, batch_size)
        val_images, val_labels = textures(rng, batch_size)
        yield {"images": images, "labels": labels, "val_images": val_images, "val_labels": val_labels}
