"""Sentences of word ids with shape features; the tag depends on the word before. 0 is the unknown word."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        lengths = rng.integers(3, 11, size=batch_size)
        lengths[rng.integers(0, batch_size)] = 10
        words = rng.integers(1, 80, size=(batch_size, 10))
        words = np.where(rng.random(words.shape) < 0.15, 0, words)
        before = np.concatenate([np.zeros((batch_size, 1), int), words[:, :-1]], axis=1)
        tags = (words + before) % 5
        shapes = np.stack([words % 2, words % 3 == 0, rng.random(words.shape)], axis=-1)
        yield {
            "word_ids": words.astype("int32"),
            "shapes": shapes.astype("float32"),
            "sequence_lengths": lengths.astype("int32"),
            "labels": tags.astype("int32"),
        }
