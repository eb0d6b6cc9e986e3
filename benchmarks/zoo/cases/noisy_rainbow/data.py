"""Three-step transitions of a falling-dot game, with priorities' weights and the noise of the noisy layers."""

import numpy as np

N_NOISE = 230  # of one pass through the head: inputs and outputs of its four noisy layers


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        obs = rng.integers(0, 40, size=(2, batch_size, 10, 10, 4))
        rows = rng.integers(0, 6, size=batch_size)
        columns = rng.integers(0, 10, size=batch_size)
        for i in range(batch_size):
            for t in range(4):
                obs[0, i, (rows[i] + t) % 10, columns[i], t] = 255
                obs[1, i, (rows[i] + t + 3) % 10, columns[i], t] = 255
        dones = (rng.random((batch_size, 3)) < 0.2).cumsum(axis=1) > 0
        yield {
            "obs": obs[0].astype("uint8"),
            "next_obs": obs[1].astype("uint8"),
            "actions": rng.integers(0, 5, size=batch_size).astype("int32"),
            "rewards": rng.normal(0.3, 1.5, size=(batch_size, 3)).astype("float32"),
            "dones": dones.astype("float32"),
            "weights": rng.uniform(0.2, 1.0, size=batch_size).astype("float32"),
            "noise": rng.standard_normal((batch_size, 3, N_NOISE)).astype("float32"),
        }
