"""Sentence pairs: the target is the reversed source through a substitution table, padded at the end."""

import numpy as np

SOS, EOS = 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(5).permutation(np.arange(3, 40))
    for _ in range(steps):
        source = np.full((batch_size, 8), EOS)
        source_length = rng.integers(2, 9, size=batch_size)
        decoder_input = np.full((batch_size, 7), EOS)
        decoder_output = np.full((batch_size, 7), EOS)
        weights = np.zeros((batch_size, 7))
        for i, length in enumerate(source_length):
            words = rng.integers(3, 40, size=length)
            source[i, :length] = words
            target = table[words[::-1] - 3][:6]
            decoder_input[i, : len(target) + 1] = [SOS, *target]
            decoder_output[i, : len(target) + 1] = [*target, EOS]
            weights[i, : len(target) + 1] = 1
        yield {
            "source": source.astype("int32"),
            "source_length": source_length.astype("int32"),
            "target_input": decoder_input.astype("int32"),
            "target_output": decoder_output.astype("int32"),
            "target_weights": weights.astype("float32"),
        }
