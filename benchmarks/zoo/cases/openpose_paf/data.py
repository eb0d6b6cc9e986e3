"""Stick figures with three joints: pictures of 0 to 255, joint heat maps with background, affinity fields of two limbs, a mask."""

import numpy as np

SIZE, CELLS, JOINTS = 16, 8, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:CELLS, 0:CELLS] + 0.5
    for _ in range(steps):
        joints = rng.uniform(1, CELLS - 1, (batch_size, JOINTS, 2))
        far = (x[..., None] - joints[:, None, None, :, 0]) ** 2 + (y[..., None] - joints[:, None, None, :, 1]) ** 2
        heat = np.exp(-far / 2)
        heat = np.concatenate([heat, 1 - heat.max(-1, keepdims=True)], -1)
        fields = []
        for limb in range(JOINTS - 1):
            a, b = joints[:, limb], joints[:, limb + 1]
            unit = (b - a) / (np.linalg.norm(b - a, axis=1, keepdims=True) + 1e-6)
            dx, dy = x - a[:, None, None, 0], y - a[:, None, None, 1]
            along = dx * unit[:, None, None, 0] + dy * unit[:, None, None, 1]
            across = np.abs(dx * unit[:, None, None, 1] - dy * unit[:, None, None, 0])
            on = (along >= 0) & (along <= np.linalg.norm(b - a, axis=1)[:, None, None]) & (across < 1)
            fields.append(on[..., None] * unit[:, None, None, :])
        coarse = np.concatenate([heat[..., :JOINTS]], -1).repeat(2, 1).repeat(2, 2)
        images = 60 + 150 * coarse + 20 * rng.standard_normal((batch_size, SIZE, SIZE, JOINTS))
        mask = np.ones((batch_size, CELLS, CELLS, 1))
        for i in range(batch_size):
            top, left = rng.integers(0, CELLS - 3, 2)
            mask[i, top:top + 3, left:left + 2 + i % 2] = 0
        yield {
            "images": np.clip(images, 0, 255).astype("float32"),
            "vectmap": np.concatenate(fields, -1).astype("float32"),
            "heatmap": heat.astype("float32"),
            "mask": mask.astype("float32"),
        }
