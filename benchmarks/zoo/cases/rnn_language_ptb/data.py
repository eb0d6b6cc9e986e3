"""Windows of a stream of words, the state carried over from the window before, and dropout masks (0 or 1 / keep)."""

import numpy as np

VOCAB, STEPS, EMBEDDING, HIDDEN, LAYERS, KEEP = 50, 7, 20, 24, 2, 0.65


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, VOCAB + 1)
    frequency /= frequency.sum()
    follows = rng.integers(0, VOCAB, size=VOCAB)

    def mask(*shape):
        return ((rng.random(shape) < KEEP) / KEEP).astype("float32")

    for _ in range(steps):
        words = rng.choice(VOCAB, size=(batch_size, STEPS + 1), p=frequency)
        for t in range(1, STEPS + 1):
            words[:, t] = np.where(rng.random(batch_size) < 0.5, follows[words[:, t - 1]], words[:, t])
        state = 0.5 * rng.standard_normal((batch_size, LAYERS, 2, HIDDEN))
        state[:, :, 1] = np.tanh(state[:, :, 1])
        yield {
            "inputs": words[:, :-1].astype("int32"),
            "targets": words[:, 1:].astype("int32"),
            "state": state.astype("float32"),
            "embedding_mask": mask(batch_size, STEPS, EMBEDDING),
            "output_masks": mask(batch_size, LAYERS, STEPS, HIDDEN),
        }
