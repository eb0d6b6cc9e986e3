"""Transitions from a replay buffer; the noise of the target policy; and whether the policy moves in this update."""

import numpy as np

OBS_DIM, ACT_DIM, ACT_LIMIT, TARGET_NOISE, POLICY_DELAY = 11, 3, 1.5, 0.4, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    dynamics = 0.3 * rng.standard_normal((OBS_DIM + ACT_DIM, OBS_DIM))
    for step in range(steps):
        obs = rng.standard_normal((batch_size, OBS_DIM))
        act = np.clip(rng.standard_normal((batch_size, ACT_DIM)), -ACT_LIMIT, ACT_LIMIT)
        obs2 = 0.8 * obs + np.concatenate([obs, act], axis=1) @ dynamics
        rew = 1.0 - 0.2 * np.square(obs2[:, :4]).sum(axis=1) - 0.1 * np.square(act).sum(axis=1)
        yield {
            "obs": obs.astype("float32"),
            "act": act.astype("float32"),
            "rew": rew.astype("float32"),
            "obs2": obs2.astype("float32"),
            "done": (rng.random(batch_size) < 0.25).astype("float32"),
            "target_noise": (TARGET_NOISE * rng.standard_normal((batch_size, ACT_DIM))).astype("float32"),
            "policy_mask": np.full(batch_size, float(step % POLICY_DELAY == 0), "float32"),
        }
