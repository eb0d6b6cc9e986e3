"""Episodes of three agents, of different lengths: filled marks the steps that happened, available what an agent may do."""

import numpy as np

AGENTS, ACTIONS, OBS, STATE, LENGTH = 3, 5, 6, 10, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        state = rng.standard_normal((batch_size, LENGTH + 1, STATE)).cumsum(axis=1) * 0.5
        view = rng.standard_normal((AGENTS, STATE, OBS)) / np.sqrt(STATE)
        obs = np.einsum("bts,aso->btao", state, view) + 0.1 * rng.standard_normal((batch_size, LENGTH + 1, AGENTS, OBS))
        available = rng.random((batch_size, LENGTH + 1, AGENTS, ACTIONS)) < 0.6
        available[..., 0] = True
        actions = (rng.random(available.shape) * available).argmax(axis=-1)[:, :LENGTH]
        lengths = rng.integers(3, LENGTH + 3, size=(batch_size, 1))
        time = np.arange(LENGTH)[None, :]
        yield {
            "obs": obs.astype("float32"),
            "state": state.astype("float32"),
            "available": available.astype("int32"),
            "actions": actions.astype("int32"),
            "rewards": rng.normal(0.2, 1.0, size=(batch_size, LENGTH)).astype("float32"),
            "terminated": (time == lengths - 1).astype("float32"),
            "filled": (time < lengths).astype("float32"),
        }
