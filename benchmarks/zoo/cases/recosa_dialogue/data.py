"""Dialogues of up to four turns and the answer to the last of them; turns and words are padded behind with zeros. Dropout's mask of the
turns' vectors is an input: 0, or one over the probability of keeping."""
import numpy as np

VOCAB, TURNS, WORDS, ANSWER, HIDDEN = 32, 4, 6, 7, 16
KEEP = 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x = np.zeros((batch_size, TURNS, WORDS), "int32")
        lengths = np.zeros((batch_size, TURNS), "int32")
        y = np.zeros((batch_size, ANSWER), "int32")
        for i in range(batch_size):
            topic = int(rng.integers(4, VOCAB - 8))
            for j in range(int(rng.integers(1, TURNS + 1))):
                n = int(rng.integers(1, WORDS + 1))
                x[i, j, :n] = topic + rng.integers(0, 8, n)
                lengths[i, j] = n
            m = int(rng.integers(2, ANSWER))
            y[i, :m] = topic + (np.arange(m) + n) % 8
            y[i, m] = 3
        keep = (rng.random((batch_size, TURNS, HIDDEN)) < KEEP) / KEEP
        yield {"x": x, "x_length": lengths, "turns": (lengths > 0).astype("float32"), "keep": keep.astype("float32"), "y": y,
               "istarget": (y != 0).astype("float32")}
