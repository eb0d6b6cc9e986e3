"""Running text of a small vocabulary, each word mostly followed by one of a few others, and the noise of variational dropout:
one draw per sequence for inputs, states and outputs, and one per word that is dropped wherever it stands."""
import numpy as np

VOCAB, STEPS, SIZE, LAYERS = 32, 7, 20, 2
KEEP_X, KEEP_I, KEEP_H, KEEP_O = 0.9, 0.8, 0.85, 0.8


def noise(rng, keep, *shape):
    return ((rng.random(shape) < keep) / keep).astype("float32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    follow = np.random.default_rng(12).integers(0, VOCAB, (VOCAB, 3))
    for _ in range(steps):
        text = np.empty((batch_size, STEPS + 1), "int32")
        text[:, 0] = np.minimum(rng.geometric(0.12, batch_size) - 1, VOCAB - 1)
        for t in range(STEPS):
            likely = follow[text[:, t], rng.integers(0, 3, batch_size)]
            text[:, t + 1] = np.where(rng.random(batch_size) < 0.8, likely, rng.integers(0, VOCAB, batch_size))
        x, y = text[:, :-1], text[:, 1:]
        # a word that is dropped is dropped everywhere in its sequence
        noise_x = noise(rng, KEEP_X, batch_size, VOCAB)[np.arange(batch_size)[:, None], x][..., None]
        yield {"input_data": x.copy(), "targets": y.copy(), "noise_x": noise_x,
               "noise_i": noise(rng, KEEP_I, batch_size, SIZE, LAYERS), "noise_h": noise(rng, KEEP_H, batch_size, SIZE, LAYERS),
               "noise_o": noise(rng, KEEP_O, batch_size, 1, SIZE)}
