"""Rollouts of an agent that sees a ball in a coloured room: frames, its last action and reward, the actions it took, advantages and
returns; a replayed stretch with how much every cell of the picture changed; and three frames from which to guess the next reward."""
import numpy as np

SIZE, STEPS, ACTIONS, CELLS, STATE = 20, 5, 4, 10, 32


def frames(rng, *shape):
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    centre = np.cumsum(rng.normal(0, 1.5, shape + (2,)), axis=-2) + SIZE / 2
    ball = np.exp(-((rows - centre[..., :1, None]) ** 2 + (columns - centre[..., 1:, None]) ** 2) / 8)
    room = rng.uniform(0, 0.5, shape[:1] + (1, 1, 1, 3))
    return room + ball[..., None] * np.array([1.0, 0.6, 0.2]) + rng.normal(0, 0.05, shape + (SIZE, SIZE, 3))


def one_hot(rng, n, *shape):
    return np.eye(n)[rng.integers(0, n, shape)]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    rollout = (batch_size, STEPS)
    for _ in range(steps):
        batch = {
            "base_input": frames(rng, *rollout),
            "base_last_action_reward": np.concatenate([one_hot(rng, ACTIONS, *rollout), rng.choice([0.0, 1.0, -1.0], rollout + (1,))], -1),
            "base_state_c": rng.normal(0, 0.7, (batch_size, STATE)),
            "base_state_h": np.tanh(rng.normal(0, 0.7, (batch_size, STATE))),
            "base_a": one_hot(rng, ACTIONS, *rollout),
            "base_adv": rng.normal(0, 1, rollout),
            "base_r": rng.normal(0.4, 1, rollout),
            "replay_input": frames(rng, *rollout),
            "replay_last_action_reward": np.concatenate([one_hot(rng, ACTIONS, *rollout), rng.choice([0.0, 1.0], rollout + (1,))], -1),
            "pc_a": one_hot(rng, ACTIONS, *rollout),
            "pc_r": rng.gamma(1.5, 0.4, rollout + (CELLS, CELLS)),
            "vr_r": rng.normal(0.4, 1, rollout),
            "rp_input": frames(rng, batch_size, 3),
            "rp_c_target": one_hot(rng, 3, batch_size),
        }
        yield {name: value.astype("float32") for name, value in batch.items()}
