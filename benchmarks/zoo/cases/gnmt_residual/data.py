"""Sentence pairs of different lengths, padded behind: the target is the source backwards through a table, with <s> in front as input
and </s> behind as output; weights are one for what is to be predicted."""
import numpy as np

SOURCE, TARGET, LONGEST = 26, 22, 7
BOS, EOS = 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    table = 3 + np.random.default_rng(0).integers(0, TARGET - 3, SOURCE)
    for _ in range(steps):
        source = np.zeros((batch_size, LONGEST), "int32")
        given = np.zeros((batch_size, LONGEST + 1), "int32")
        wanted = np.zeros((batch_size, LONGEST + 1), "int32")
        weights = np.zeros((batch_size, LONGEST + 1), "float32")
        lengths = rng.integers(2, LONGEST + 1, batch_size)
        for i, n in enumerate(lengths):
            words = rng.integers(3, SOURCE, n)
            source[i, :n] = words
            translation = table[words[::-1]]
            given[i, 0], given[i, 1:n + 1] = BOS, translation
            wanted[i, :n], wanted[i, n] = translation, EOS
            weights[i, :n + 1] = 1
        yield {"source": source, "source_length": lengths.astype("int32"), "target_input": given, "target_output": wanted,
               "target_weights": weights}
