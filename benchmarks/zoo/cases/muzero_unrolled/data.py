"""Replayed positions of a small board game: planes of the board, the actions that followed, and for each position the return, the
reward, the visits of the search, and the weight of the sample. Some returns are beyond what the network can say."""

import numpy as np

SIZE, ACTIONS, UNROLL = 5, 6, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        board = rng.choice(3, (batch_size, SIZE, SIZE), p=[0.5, 0.25, 0.25])
        planes = np.eye(3)[board]
        planes[..., 0] = rng.integers(0, 2, batch_size)[:, None, None]
        planes = planes * rng.uniform(0.8, 1.2, planes.shape)
        value = rng.normal(0, 6, (batch_size, UNROLL + 1))
        value[rng.random(value.shape) < 0.15] = 60.0
        policy = rng.dirichlet(np.full(ACTIONS, 0.4), (batch_size, UNROLL + 1))
        policy[rng.random((batch_size, UNROLL + 1)) < 0.1] = 1 / ACTIONS  # behind the end of the game
        yield {
            "observation": planes.astype("float32"),
            "actions": rng.integers(0, ACTIONS, (batch_size, UNROLL)).astype("int32"),
            "target_value": value.astype("float32"),
            "target_reward": rng.normal(0, 2, (batch_size, UNROLL)).astype("float32"),
            "target_policy": policy.astype("float32"),
            "weight": rng.uniform(0.3, 1.0, batch_size).astype("float32"),
        }
