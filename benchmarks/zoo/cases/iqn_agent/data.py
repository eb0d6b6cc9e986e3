"""Transitions of a small moving-dot game, and the quantile fractions that the agent would have drawn for them."""

import numpy as np


def frames(rng, start, velocity):
    y, x = np.mgrid[0:12, 0:12]
    stack = []
    for t in range(4):
        place = start + velocity * t
        dot = np.exp(-((x - place[:, 0, None, None]) ** 2 + (y - place[:, 1, None, None]) ** 2) / 3.0)
        stack.append(200.0 * dot + 40.0 * rng.random(dot.shape))
    return np.stack(stack, axis=-1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        start = rng.uniform(2, 9, (batch_size, 2))
        velocity = rng.uniform(-1.5, 1.5, (batch_size, 2))
        terminals = rng.random(batch_size) < 0.3
        yield {
            "states": frames(rng, start, velocity).astype("float32"),
            "actions": rng.integers(0, 4, batch_size).astype("int32"),
            "rewards": rng.normal(0.0, 1.5, batch_size).astype("float32"),
            "next_states": frames(rng, start + 3 * velocity, velocity).astype("float32"),
            "terminals": terminals.astype("float32"),
            "taus": rng.uniform(0.01, 0.99, (batch_size, 6)).astype("float32"),
            "next_taus": rng.uniform(0.01, 0.99, (batch_size, 6)).astype("float32"),
            "action_taus": rng.uniform(0.01, 0.99, (batch_size, 5)).astype("float32"),
        }
