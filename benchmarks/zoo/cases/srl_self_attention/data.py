"""Sentences with one marked predicate; the role of a word depends on its class and on which side of the predicate it stands."""
import numpy as np

WORDS, LONGEST, ROLES = 53, 11, 9


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tokens = np.zeros((batch_size, LONGEST), "int32")
        preds = np.zeros((batch_size, LONGEST), "int32")
        roles = np.zeros((batch_size, LONGEST), "int32")
        mask = np.zeros((batch_size, LONGEST), "float32")
        for row in range(batch_size):
            n = int(rng.integers(4, LONGEST + 1))
            verb = int(rng.integers(n))
            tokens[row, :n] = rng.integers(1, WORDS, n)
            preds[row, verb] = 1
            side = (np.arange(n) > verb).astype("int64")
            role = 1 + (tokens[row, :n] % 4) + 4 * side
            roles[row, :n] = np.where(rng.random(n) < 0.3, 0, role)
            mask[row, :n] = 1
        yield {"tokens": tokens, "preds": preds, "mask": mask, "targets": roles}
