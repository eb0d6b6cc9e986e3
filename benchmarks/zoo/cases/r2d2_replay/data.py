"""Stretches of play from a replay memory: a bright square wanders over dim frames of 10 x 10, two frames to an observation. The
recurrent state that the actor had at the start of a stretch is stored along; episodes end within."""
import numpy as np

LENGTH, SIZE, ACTIONS, UNITS = 9, 10, 4, 18
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        obs = rng.integers(0, 40, (batch_size, LENGTH, SIZE, SIZE, 2)).astype("float32")
        action = rng.integers(0, ACTIONS, (batch_size, LENGTH)).astype("int32")
        reward = np.zeros((batch_size, LENGTH), "float32")
        done = np.zeros((batch_size, LENGTH), "float32")
        for b in range(batch_size):
            place, before = rng.integers(0, SIZE - 2, 2), rng.integers(0, SIZE - 2, 2)
            for t in range(LENGTH):
                for k, (y, x) in enumerate((before, place)):
                    obs[b, t, y:y + 3, x:x + 2, k] += 180
                before, place = place, np.clip(place + MOVES[action[b, t]], 0, SIZE - 3)
                reward[b, t] = 3.0 * (place.sum() > 9) - 0.4 + rng.normal(0, 0.3)
                if rng.random() < 0.15:
                    done[b, t] = 1
                    place = rng.integers(0, SIZE - 2, 2)
        previous = {"prev_action": np.concatenate([rng.integers(0, ACTIONS, (batch_size, 1)), action[:, :-1]], 1).astype("int32"),
                    "prev_reward": np.concatenate([rng.normal(0, 1, (batch_size, 1)), reward[:, :-1]], 1).astype("float32")}
        yield {"obs": obs, **previous, "action": action, "reward": reward, "done": done,
               "initial_h": np.tanh(rng.normal(0, 0.5, (batch_size, UNITS))).astype("float32"),
               "initial_c": rng.normal(0, 0.8, (batch_size, UNITS)).astype("float32"),
               "weight": rng.uniform(0.3, 1.0, batch_size).astype("float32")}
