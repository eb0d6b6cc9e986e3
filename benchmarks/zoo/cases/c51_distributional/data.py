import numpy as np

SIZE, STACK, ACTIONS = 16, 3, 5


def draw(ball, paddle, speed):
    """Three frames of a ball over a paddle, the newest in the last channel."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    frames = np.zeros([SIZE, SIZE, STACK])
    for age in range(STACK):
        where = ball - speed * (STACK - 1 - age)
        frames[..., age] = 255 * np.exp(-((rows - where[0]) ** 2 + (columns - where[1]) ** 2) / 3.0)
        frames[SIZE - 2:, max(0, int(paddle) - 2):int(paddle) + 3, age] = 180
    return frames


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        batch = {"states": [], "actions": [], "rewards": [], "next_states": [], "terminals": [], "probabilities": []}
        for _ in range(batch_size):
            ball = np.array([random.uniform(2, 14), random.uniform(1, 15)])
            speed = np.array([random.uniform(0.5, 2), random.uniform(-1.5, 1.5)])
            paddle, action = random.uniform(2, 13), int(random.choice(ACTIONS, p=[.4, .2, .2, .15, .05]))
            after = np.clip(paddle + [0, -1, 1, -2, 2][action], 2, 13)
            fallen = ball[0] + speed[0] > 13
            caught = abs(ball[1] - after) < 3
            reward = (1.0 if caught else -1.0) if fallen else (0.25 * random.integers(0, 2))
            if random.random() < 0.1:
                reward *= 4  # a bonus ball
            batch["states"].append(draw(ball, paddle, speed) + random.uniform(0, 20, [SIZE, SIZE, STACK]))
            batch["next_states"].append(draw(ball + speed, after, speed) + random.uniform(0, 20, [SIZE, SIZE, STACK]))
            batch["actions"].append(action)
            batch["rewards"].append(reward)
            batch["terminals"].append(float(fallen and not caught))
            batch["probabilities"].append(random.gamma(0.7) / 500 + 1e-4)
        yield {name: np.array(values, np.int32 if name == "actions" else np.float32) for name, values in batch.items()}
