"""Short reviews of three classes, of which one is rare; words that tell the class stand among many that do not."""
import numpy as np

VOCAB, LENGTH, CLASSES, EMBEDDING, KEEP = 53, 12, 3, 11, 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = rng.choice(CLASSES, batch_size, p=[.55, .35, .1])
        lengths = rng.integers(2, LENGTH + 1, batch_size)
        lengths[rng.integers(0, batch_size, 3)] = LENGTH
        tokens = np.zeros((batch_size, LENGTH), np.int32)                  # 0 is padding, and every unknown word
        for i in range(batch_size):
            n = lengths[i]
            row = rng.integers(1 + 5 * CLASSES, VOCAB, n)
            tell = rng.random(n) < .4
            row[tell] = 1 + 5 * labels[i] + rng.integers(0, 5, tell.sum())
            row[rng.random(n) < .1] = 0
            tokens[i, :n] = row
        keep = (rng.random((batch_size, EMBEDDING)) < KEEP) / KEEP          # one mask for all words of a review
        yield dict(tokens=tokens, lengths=lengths.astype(np.int32), labels=labels.astype(np.int32),
                   keep=keep.astype(np.float32))
