"""Transitions from a replay buffer: a damped point that is pushed, with sampling weights and noise for the target policy."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        position, velocity, goal = rng.normal(size=(3, batch_size, 2)) * np.array([2.0, 1.0, 3.0])[:, None, None]
        action = rng.uniform(-2, 2, size=(batch_size, 2))
        next_velocity = 0.9 * velocity + 0.3 * action + 0.05 * rng.standard_normal((batch_size, 2))
        next_position = position + 0.5 * next_velocity
        distance = np.linalg.norm(next_position - goal, axis=-1)
        yield {
            "obs": np.concatenate([position, velocity, goal], -1).astype("float32"),
            "action": action.astype("float32"),
            "reward": (-0.3 * distance).astype("float32"),
            "next_obs": np.concatenate([next_position, next_velocity, goal], -1).astype("float32"),
            "done": (rng.random(batch_size) < 0.25).astype("float32"),
            "noise": (0.5 * rng.standard_normal((batch_size, 2))).astype("float32"),
            "weights": rng.uniform(0.3, 1.0, size=batch_size).astype("float32"),
        }
