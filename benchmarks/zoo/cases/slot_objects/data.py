"""Scenes of two or three coloured blobs on a grey ground, in [0, 1], and the noise that the slots start from."""
import numpy as np

SIZE, SLOTS, SLOT_SIZE = 16, 4, 16


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        scenes = np.full((batch_size, SIZE, SIZE, 3), 0.5) + rng.normal(0, 0.02, (batch_size, SIZE, SIZE, 3))
        for scene in scenes:
            for _ in range(int(rng.integers(2, 4))):
                row, column = rng.uniform(2, SIZE - 2, 2)
                tall, wide = rng.uniform(1.5, 3.5, 2)
                inside = ((y - row) / tall) ** 2 + ((x - column) / wide) ** 2 < 1
                scene[inside] = rng.uniform(0, 1, 3)
        noise = rng.standard_normal((batch_size, SLOTS, SLOT_SIZE))
        yield {"image": np.clip(scenes, 0, 1).astype("float32"), "slots_noise": noise.astype("float32")}
