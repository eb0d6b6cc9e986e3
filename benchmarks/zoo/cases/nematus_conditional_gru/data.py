"""Pairs of sentences, time first once they are in the model: the target says the source backwards in other words, now and then with a
word left out. 0 ends every sentence and fills the rest."""
import numpy as np

SOURCE, TARGET, LONGEST = 41, 37, 8


def padded(sentences):
    ids = np.zeros((len(sentences), LONGEST + 1), "int32")
    mask = np.zeros((len(sentences), LONGEST + 1), "float32")
    for row, words in enumerate(sentences):
        ids[row, :len(words)] = words
        mask[row, :len(words) + 1] = 1
    return ids, mask


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    lexicon = rng.integers(1, TARGET, SOURCE)
    for _ in range(steps):
        source = [rng.integers(1, SOURCE, rng.integers(2, LONGEST + 1)) for _ in range(batch_size)]
        target = [lexicon[words][::-1][rng.random(len(words)) < 0.9] for words in source]
        x, x_mask = padded(source)
        y, y_mask = padded(target)
        yield {"x": x, "x_mask": x_mask, "y": y, "y_mask": y_mask}
