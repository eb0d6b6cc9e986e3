"""Tasks of three strokes each, two drawings of each stroke to learn from and two to be tested by; every task has strokes of its own."""

import numpy as np

WAYS, SHOTS, QUERIES, SIZE = 3, 2, 2, 12


def drawings(rng, strokes, each):
    labels = rng.permutation(np.repeat(np.arange(WAYS), each))
    pictures = np.stack([np.roll(strokes[label], rng.integers(-1, 2, 2), axis=(0, 1)) for label in labels])
    noise = 0.15 * rng.standard_normal(pictures.shape)
    return (pictures + noise)[..., None].astype("float32"), labels.astype("int32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tasks = []
        for _ in range(batch_size):
            strokes = np.zeros((WAYS, SIZE, SIZE))
            for stroke in strokes:
                at = rng.integers(2, SIZE - 2, 2)
                for _ in range(14):
                    stroke[tuple(at)] = 1.0
                    at = np.clip(at + rng.integers(-1, 2, 2), 1, SIZE - 2)
            tasks.append((*drawings(rng, strokes, SHOTS), *drawings(rng, strokes, QUERIES)))
        inputa, labela, inputb, labelb = (np.stack(column) for column in zip(*tasks))
        yield {"inputa": inputa, "labela": labela, "inputb": inputb, "labelb": labelb}
