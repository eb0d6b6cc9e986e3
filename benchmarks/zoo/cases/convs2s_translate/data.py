"""A toy language pair: the target is the source backwards, its words renamed. 0 pads, 1 starts and 2 ends it."""

import numpy as np

SOURCE_LENGTH, TARGET_LENGTH = 10, 9
SOURCE_WORDS, TARGET_WORDS = 40, 36


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    renamed = rng.integers(3, TARGET_WORDS, size=SOURCE_WORDS)
    for _ in range(steps):
        source = np.zeros((batch_size, SOURCE_LENGTH), "int32")
        target = np.zeros((batch_size, TARGET_LENGTH + 1), "int32")
        for row in range(batch_size):
            words = rng.integers(3, SOURCE_WORDS, size=rng.integers(4, TARGET_LENGTH))
            source[row, : len(words) + 1] = [*words, 2]
            target[row, : len(words) + 2] = [1, *renamed[words[::-1]], 2]
        yield {
            "source": source,
            "source_mask": (source > 0).astype("float32"),
            "target_in": np.where(target[:, :-1] == 2, 0, target[:, :-1]).astype("int32"),
            "target_out": target[:, 1:],
            "target_weights": (target[:, 1:] > 0).astype("float32"),
        }
