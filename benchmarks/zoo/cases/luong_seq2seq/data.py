"""A toy translation: the target is the source backwards in another vocabulary, with words that are dropped now and then."""

import numpy as np

PAD, SOS, EOS = 0, 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        source = np.zeros((batch_size, 11), dtype="int32")
        target_input = np.zeros((batch_size, 8), dtype="int32")
        target_output = np.zeros((batch_size, 8), dtype="int32")
        source_length = rng.integers(4, 12, size=batch_size).astype("int32")
        target_length = np.zeros(batch_size, dtype="int32")
        for i, length in enumerate(source_length):
            words = rng.integers(3, 30, size=length)
            source[i, :length] = words
            translated = (words[::-1] * 5 % 23 + 3)[rng.random(length) < 0.8][:7]
            n = len(translated) + 1
            target_input[i, :n] = np.r_[SOS, translated]
            target_output[i, :n] = np.r_[translated, EOS]
            target_length[i] = n
        yield {
            "source": source,
            "source_length": source_length,
            "target_input": target_input,
            "target_output": target_output,
            "target_weights": (np.arange(8)[None] < target_length[:, None]).astype("float32"),
        }
