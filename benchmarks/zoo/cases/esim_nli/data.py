"""Pairs of sentences: the hypothesis repeats part of the premise, negates one of its words, or says something else."""

import numpy as np

NEGATION = 1


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        premise = np.zeros((batch_size, 11), "int32")
        hypothesis = np.zeros((batch_size, 9), "int32")
        premise_length = rng.integers(5, 12, size=batch_size).astype("int32")
        hypothesis_length = np.zeros(batch_size, "int32")
        labels = rng.integers(0, 3, size=batch_size)
        for i in range(batch_size):
            words = rng.integers(2, 40, size=premise_length[i])
            premise[i, : len(words)] = words
            said = np.sort(rng.choice(len(words), size=rng.integers(3, min(len(words), 8) + 1), replace=False))
            said = words[said] if labels[i] < 2 else rng.integers(2, 40, size=len(said))
            if labels[i] == 1:
                said = np.insert(said, rng.integers(len(said)), NEGATION)
            hypothesis[i, : len(said)] = said
            hypothesis_length[i] = len(said)
        yield {
            "premise": premise,
            "premise_length": premise_length,
            "hypothesis": hypothesis,
            "hypothesis_length": hypothesis_length,
            "y": np.eye(3, dtype="float32")[labels],
        }
