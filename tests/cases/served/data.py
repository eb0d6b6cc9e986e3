import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        x, y = random.standard_normal((batch_size, 4)), random.standard_normal((batch_size, 2))
        yield {"x": x.astype(np.float32), "y": y.astype(np.float32)}
