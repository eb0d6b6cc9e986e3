"""Dialogues of two to four turns, each a noisy run through the vocabulary; 0 is padding, and what a decoder begins with."""

import numpy as np

TURNS, WORDS, VOCABULARY = 4, 7, 40


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        topic = rng.integers(1, VOCABULARY, (batch_size, 1, 1))
        turn = np.arange(TURNS)[None, :, None]
        word = np.arange(WORDS)[None, None, :]
        tokens = (topic + 3 * turn + word * (1 + topic % 3)) % (VOCABULARY - 1) + 1
        tokens = np.where(rng.random(tokens.shape) < 0.2, rng.integers(1, VOCABULARY, tokens.shape), tokens)
        turns = rng.integers(2, TURNS + 1, batch_size)
        lengths = rng.integers(3, WORDS + 1, (batch_size, TURNS)) * (np.arange(TURNS)[None] < turns[:, None])
        counts = word < lengths[..., None]
        yield {
            "dialogues": np.where(counts, tokens, 0).astype("int32"),
            "lengths": lengths.astype("int32"),
            "turns": turns.astype("int32"),
            "weights": counts[:, 1:].astype("float32"),
        }
