"""Random trees over sentences that begin with a root symbol; 0 pads words and tags, the root's head is itself."""

import numpy as np

LENGTH = 10
WORDS, TAGS, RELATIONS = 70, 12, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        words, tags, heads, relations = np.zeros((4, batch_size, LENGTH), "int32")
        for row in range(batch_size):
            n = rng.integers(5, LENGTH + 1)
            words[row, :n] = [1, *rng.integers(2, WORDS, size=n - 1)]
            tags[row, :n] = [1, *(words[row, 1:n] % (TAGS - 2) + 2)]
            order = rng.permutation(np.arange(1, n))
            for place, word in enumerate(order):
                heads[row, word] = 0 if place == 0 else order[rng.integers(0, place)]
                relations[row, word] = (tags[row, word] + tags[row, heads[row, word]]) % RELATIONS
        yield {
            "words": words,
            "tags": tags,
            "mask": (words > 0).astype("float32"),
            "heads": heads,
            "relations": relations,
        }
