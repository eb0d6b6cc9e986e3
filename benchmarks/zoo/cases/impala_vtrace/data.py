"""Unrolls of actors that lag behind the learner: what they saw, did and were paid, and the logits they acted by."""

import numpy as np

UNROLL = 7
ACTIONS = 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal((12, ACTIONS))
    for _ in range(steps):
        drift = 0.4 * rng.standard_normal((batch_size, UNROLL + 1, 12))
        observation = rng.standard_normal((batch_size, 1, 12)) + np.cumsum(drift, axis=1)
        logits = 0.5 * (observation @ direction) / np.sqrt(12) + 0.5 * rng.standard_normal((batch_size, UNROLL + 1, ACTIONS))
        gumbel = rng.gumbel(size=logits.shape)
        action = np.argmax(logits + gumbel, axis=-1)
        reward = 1.5 * rng.standard_normal((batch_size, UNROLL + 1)) + 0.5 * (action == np.argmax(observation @ direction, -1))
        yield {
            "observation": observation.astype("float32"),
            "action": action.astype("int32"),
            "reward": reward.astype("float32"),
            "done": (rng.random((batch_size, UNROLL + 1)) < 0.2).astype("float32"),
            "behaviour_logits": logits.astype("float32"),
        }
