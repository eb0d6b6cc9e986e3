"""Segments of a long text, the states that the segment before has left, and which targets count."""
import numpy as np

VOCAB, LENGTH, MEMORY, LAYERS, WIDTH = 47, 6, 5, 2, 16


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    order = 1.0 / np.arange(1, VOCAB + 1) ** 0.8            # frequent words have small numbers, as adaptive softmax wants
    order /= order.sum()
    follow = rng.integers(0, VOCAB, VOCAB)
    for _ in range(steps):
        text = rng.choice(VOCAB, (batch_size, LENGTH + 1), p=order)
        for t in range(LENGTH):
            keep = rng.random(batch_size) < .6
            text[keep, t + 1] = follow[text[keep, t]]
        memory = np.cumsum(rng.standard_normal((batch_size, LAYERS, MEMORY, WIDTH)), 2) * .5
        memory -= memory.mean(-1, keepdims=True)
        memory[rng.random(batch_size) < .25] = 0           # a document begins: nothing to remember
        weights = np.ones((batch_size, LENGTH), np.float32)
        for i in np.flatnonzero(rng.random(batch_size) < .4):
            weights[i, rng.integers(1, LENGTH):] = 0       # and here one ends
        yield dict(tokens=text[:, :-1].astype(np.int32), targets=text[:, 1:].astype(np.int32),
                   mems=memory.astype(np.float32), weights=weights)
