"""Pupils of different skill who answer exercises one after the other. Exercise 0 is none: skipped in between, or padding at the end;
its target is -1."""
import numpy as np

QUESTIONS, LENGTH = 14, 8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 1, QUESTIONS + 1)
    for _ in range(steps):
        q = rng.integers(1, QUESTIONS + 1, (batch_size, LENGTH))
        length = rng.integers(4, LENGTH + 1, batch_size)
        q[rng.random(q.shape) < 0.12] = 0
        q[np.arange(LENGTH) >= length[:, None]] = 0
        q[:, 0] = rng.integers(1, QUESTIONS + 1, batch_size)
        skill = rng.normal(0, 1, (batch_size, 1)) + 0.2 * np.arange(LENGTH)
        right = (rng.random(q.shape) < 1 / (1 + np.exp(hard[q] - skill))).astype("int32")
        answer = np.where(q > 0, right, 0)
        yield {"q_data": q.astype("int32"), "answer": answer.astype("int32"),
               "target": np.where(q > 0, right, -1).astype("float32")}
