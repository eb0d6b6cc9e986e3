"""Utterances whose words hint at their slot tag and whose tags hint at the intent; word 0 pads."""

import numpy as np

VOCABULARY, LENGTH, SLOTS, INTENTS = 50, 13, 11, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    tag_of = rng.integers(0, SLOTS, size=VOCABULARY)
    for _ in range(steps):
        lengths = rng.integers(4, LENGTH + 1, size=batch_size)
        inside = np.arange(LENGTH)[None, :] < lengths[:, None]
        words = np.where(inside, rng.integers(1, VOCABULARY, size=inside.shape), 0)
        slots = np.where(rng.random(inside.shape) < 0.1, rng.integers(0, SLOTS, size=inside.shape), tag_of[words])
        slots = np.where(inside, slots, 0)
        intents = (slots[:, 0] + slots[:, 1] * 3) % INTENTS
        yield {
            "words": words.astype("int32"),
            "lengths": lengths.astype("int32"),
            "slots": slots.astype("int32"),
            "slot_weights": inside.astype("float32"),
            "intents": intents.astype("int32"),
        }
