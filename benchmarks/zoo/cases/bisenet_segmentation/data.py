"""Street-like scenes: horizon, road and boxes, with a label per pixel; 255 marks pixels that do not count."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    colours = np.random.default_rng(3).uniform(-1, 1, size=(5, 3))
    y, x = np.mgrid[0:32, 0:32]
    for _ in range(steps):
        image = np.empty((batch_size, 32, 32, 3))
        label = np.empty((batch_size, 32, 32), dtype="int64")
        for n in range(batch_size):
            horizon = rng.integers(8, 20) + (x - 16) * rng.uniform(-0.2, 0.2)
            scene = np.where(y < horizon, 0, 1)
            for kind in (2, 3, 4):
                top, left = rng.integers(0, 24, size=2)
                height, width = rng.integers(4, 14, size=2)
                scene[top : top + height, left : left + width] = kind
            image[n] = colours[scene] + 0.3 * rng.standard_normal((32, 32, 3))
            edge = (scene != np.roll(scene, 1, axis=1)) | (rng.random(scene.shape) < 0.05)
            label[n] = np.where(edge, 255, scene)
        yield {"image": image.astype("float32"), "label": label.astype("int32")}
