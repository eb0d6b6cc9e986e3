"""Crops of persons, values 0 to 255, three of each of four persons in a row: clothes have a person's colours, cameras a gain."""

import numpy as np

PERSONS, IDS_IN_A_ROW, CROPS = 9, 4, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    colours = rng.uniform(20, 230, size=(PERSONS, 2, 3))
    for _ in range(steps):
        rows = -(-batch_size // (IDS_IN_A_ROW * CROPS))
        pids = np.concatenate([rng.permutation(PERSONS)[:IDS_IN_A_ROW] for _ in range(rows)])
        pids = np.repeat(pids, CROPS)[:batch_size]
        images = rng.uniform(0, 255, size=(batch_size, 1, 1, 3)) * np.ones((1, 20, 12, 1))
        images[:, 3:10, 3:9] = colours[pids, 0][:, None, None]
        images[:, 10:18, 4:8] = colours[pids, 1][:, None, None]
        images = images * rng.uniform(0.7, 1.1, size=(batch_size, 1, 1, 1)) + rng.normal(0, 18, size=images.shape)
        yield {"images": np.clip(images, 0, 255).astype("float32"), "pids": pids.astype("int32")}
