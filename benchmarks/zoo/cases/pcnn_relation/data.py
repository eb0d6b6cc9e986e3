"""Bags of sentences that mention the same two entities; words between them, and to a lesser degree around them, hint at the relation.
Some sentences of a bag hint at nothing. A bag has one to four sentences; the others are padding.
Bags without a relation (0) weigh less, and some fill up the batch and weigh nothing."""
import numpy as np

WORDS, RELATIONS, SENTENCES, LENGTH = 50, 5, 4, 14
LIMIT = 9  # distances to an entity are cut off at it


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        shape = (batch_size, SENTENCES, LENGTH)
        word, pos1, pos2, piece = (np.zeros(shape, "int32") for _ in range(4))
        count = rng.choice([1, 2, 3, 4], batch_size, p=[0.3, 0.3, 0.2, 0.2]).astype("int32")
        relation = rng.choice(RELATIONS, batch_size, p=[0.4, 0.2, 0.15, 0.15, 0.1]).astype("int32")
        for b in range(batch_size):
            for s in range(count[b]):
                n = rng.integers(7, LENGTH + 1)
                head, tail = np.sort(rng.choice(n, 2, replace=False))
                at = np.arange(n)
                text = rng.integers(12, WORDS, n)
                if rng.random() < 0.7:
                    hint = rng.random(n) < np.where((at > head) & (at < tail), 0.7, 0.2)
                    text[hint] = 2 + 2 * relation[b] + rng.integers(0, 2, hint.sum())
                text[[head, tail]] = 1
                word[b, s, :n] = text
                pos1[b, s, :n] = np.clip(at - head, -LIMIT, LIMIT) + LIMIT + 1
                pos2[b, s, :n] = np.clip(at - tail, -LIMIT, LIMIT) + LIMIT + 1
                piece[b, s, :n] = np.where(at <= head, 1, np.where(at <= tail, 2, 3))
        weights = np.where(relation == 0, 0.4, 1.0) * (rng.random(batch_size) < 0.85)
        yield {"word": word, "pos1": pos1, "pos2": pos2, "piece": piece, "count": count, "relation": relation,
               "weights": weights.astype("float32")}
