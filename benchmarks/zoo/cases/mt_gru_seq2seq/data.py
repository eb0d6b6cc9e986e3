"""Sentence pairs, and what scheduled sampling draws: tokens of the model's and where they replace the teacher's."""

import numpy as np

SOURCE_VOCAB, TARGET_VOCAB = 41, 37
SOURCE_LENGTH, TARGET_LENGTH = 9, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        source_lengths = rng.integers(4, SOURCE_LENGTH + 1, size=(batch_size, 1))
        target_lengths = np.minimum(rng.integers(3, TARGET_LENGTH + 1, size=(batch_size, 1)), source_lengths)
        source = rng.integers(3, SOURCE_VOCAB, size=(batch_size, SOURCE_LENGTH))
        target = 3 + (source[:, ::-1][:, :TARGET_LENGTH] * 5 + 1) % (TARGET_VOCAB - 3)
        source_mask = np.arange(SOURCE_LENGTH)[None, :] < source_lengths
        target_mask = np.arange(TARGET_LENGTH)[None, :] < target_lengths
        target = np.where(np.arange(TARGET_LENGTH)[None, :] == target_lengths - 1, 2, target)
        sampled = rng.integers(3, TARGET_VOCAB, size=(batch_size, TARGET_LENGTH))
        use_sample = rng.random((batch_size, TARGET_LENGTH)) < 0.3
        use_sample[:, 0] = False  # the first input is always GO
        yield {
            "source": np.where(source_mask, source, 0).astype("int32"),
            "source_mask": source_mask.astype("float32"),
            "target": np.where(target_mask, target, 0).astype("int32"),
            "target_mask": target_mask.astype("float32"),
            "sampled": sampled.astype("int32"),
            "use_sample": use_sample.astype("float32"),
        }
