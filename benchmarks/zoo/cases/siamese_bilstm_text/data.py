"""Pairs of names as rows of characters, padded behind by 0: variants of one name (1), or two names (0)."""
import numpy as np

CHARACTERS, LENGTH = 28, 11


def name(rng):
    letters = rng.integers(1, CHARACTERS, size=rng.integers(6, LENGTH + 1))
    letters[1::2] = rng.choice([1, 5, 9, 15, 21], size=len(letters[1::2]))
    return letters


def variant(rng, letters):
    letters = letters.copy()
    at = rng.integers(0, len(letters))
    if rng.random() < 0.5:
        return np.delete(letters, at)
    letters[at] = rng.integers(1, CHARACTERS)
    return letters


def padded(letters):
    return np.pad(letters, (0, LENGTH - len(letters)))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        y = rng.integers(0, 2, size=batch_size)
        first = [name(rng) for _ in y]
        second = [variant(rng, a) if same else name(rng) for a, same in zip(first, y)]
        yield {"input_x1": np.stack([padded(a) for a in first]).astype("int32"),
               "input_x2": np.stack([padded(a) for a in second]).astype("int32"), "input_y": y.astype("float32")}
