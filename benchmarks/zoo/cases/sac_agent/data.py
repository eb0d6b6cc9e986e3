"""Transitions of a noisy linear system from a replay buffer, with the noise of the policy's draws beside them."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    drift = rng.standard_normal((11, 11)) / 11**0.5
    push = rng.standard_normal((3, 11)) / 3**0.5
    for _ in range(steps):
        obs = rng.standard_normal((batch_size, 11))
        act = 1.5 * np.tanh(rng.standard_normal((batch_size, 3)))
        next_obs = 0.9 * obs @ drift + 0.3 * act @ push + 0.1 * rng.standard_normal((batch_size, 11))
        rew = 1.0 - 0.2 * np.sum(next_obs**2, axis=1) - 0.1 * np.sum(act**2, axis=1)
        batch = {
            "obs": obs,
            "act": act,
            "rew": rew,
            "next_obs": next_obs,
            "done": rng.random(batch_size) < 0.3,
            "noise": rng.standard_normal((batch_size, 3)),
            "next_noise": rng.standard_normal((batch_size, 3)),
        }
        yield {name: value.astype("float32") for name, value in batch.items()}
