"""Replayed transitions of a ball that moves through two frames, with the weights of a prioritised memory."""

import numpy as np

SIZE, ACTIONS, FRAMES = 12, 4, 2


def _frames(x, y, dx, dy, rng):
    grid_y, grid_x = np.mgrid[0:SIZE, 0:SIZE]
    frames = []
    for k in range(FRAMES):
        cx, cy = x + k * dx, y + k * dy
        frames.append(np.exp(-((grid_x - cx) ** 2 + (grid_y - cy) ** 2) / 4.0))
    noise = 20 * rng.random((SIZE, SIZE, FRAMES))
    return np.floor(230 * np.stack(frames, -1) + noise)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x, y, dx, dy = (rng.uniform(-1, 1, batch_size) for _ in range(4))
        x, y = 6 + 4 * x, 6 + 4 * y
        priorities = rng.uniform(0.1, 1.0, batch_size)
        weights = (priorities / priorities.min()) ** -0.5
        yield {
            "obs": np.stack([_frames(*a, rng) for a in zip(x, y, dx, dy)]).astype("float32"),
            "actions": rng.integers(0, ACTIONS, batch_size).astype("int32"),
            "rewards": (1.2 * rng.standard_normal(batch_size)).astype("float32"),
            "next_obs": np.stack([_frames(*a, rng) for a in zip(x + 2 * dx, y + 2 * dy, dx, dy)]).astype("float32"),
            "dones": (rng.random(batch_size) < 0.3).astype("float32"),
            "weights": weights.astype("float32"),
        }
