"""Steps of an actor in a game: four stacked frames, the frame after them (whitened), and what PPO needs of the rollout."""
import numpy as np

SIZE, ACTIONS = 20, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    for _ in range(steps):
        start, speed = rng.uniform(3, SIZE - 3, (batch_size, 2)), rng.normal(0, 1.2, (batch_size, 2))
        frames = []
        for t in range(5):
            at = start + t * speed
            spot = np.exp(-((y - at[:, 0, None, None]) ** 2 + (x - at[:, 1, None, None]) ** 2) / 8.0)
            frames.append(np.floor(230 * spot + rng.uniform(0, 20, (batch_size, SIZE, SIZE))))
        frames = np.stack(frames, -1)
        following = (frames[..., 4:] - 20.0) / 25.0
        old = rng.normal(0, 0.3, (batch_size, ACTIONS))
        old -= np.log(np.exp(old).sum(1, keepdims=True))
        actions = rng.integers(0, ACTIONS, batch_size)
        mask = rng.random(batch_size) < 0.5
        mask[::4] = True
        yield {"ob": frames[..., :4].astype("float32"), "next_ob": following.astype("float32"), "ac": actions.astype("int32"),
               "adv": rng.normal(0, 1, batch_size).astype("float32"), "ret_int": rng.normal(0.5, 1, batch_size).astype("float32"),
               "ret_ext": rng.normal(0, 1, batch_size).astype("float32"),
               "nlp": -old[np.arange(batch_size), actions].astype("float32"), "update_mask": mask.astype("float32")}
