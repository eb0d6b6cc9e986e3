"""Padded token pairs, the positions that were masked, and what a small generator drew for them."""

import numpy as np

VOCAB = 53
LENGTH = 13
PREDICTIONS = 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    place = np.arange(LENGTH)[None, :]
    for _ in range(steps):
        lengths = rng.integers(7, LENGTH + 1, size=(batch_size, 1))
        first = rng.integers(3, 6, size=(batch_size, 1))
        topic = rng.integers(0, 5, size=(batch_size, 1))
        ids = 3 + (topic * 10 + rng.integers(0, 14, size=(batch_size, LENGTH))) % (VOCAB - 3)
        ids[:, 0] = 1
        ids = np.where(place == first, 2, ids)
        mask = place < lengths
        ids = np.where(mask, ids, 0)
        segments = np.where(mask & (place > first), 1, 0)

        positions = np.zeros((batch_size, PREDICTIONS), "int32")
        sampled = np.zeros((batch_size, PREDICTIONS), "int32")
        weights = np.zeros((batch_size, PREDICTIONS), "float32")
        for row in range(batch_size):
            candidates = [i for i in range(1, int(lengths[row, 0])) if i != first[row, 0]]
            count = int(rng.integers(2, PREDICTIONS + 1))
            chosen = np.sort(rng.choice(candidates, size=count, replace=False))
            drawn = rng.integers(3, VOCAB, size=count)
            right = rng.random(count) < 0.35  # the generator is often right
            positions[row, :count] = chosen
            sampled[row, :count] = np.where(right, ids[row, chosen], drawn)
            weights[row, :count] = 1.0
        yield {
            "input_ids": ids.astype("int32"),
            "input_mask": mask.astype("float32"),
            "segment_ids": segments.astype("int32"),
            "masked_lm_positions": positions,
            "masked_lm_weights": weights,
            "sampled_ids": sampled,
        }
