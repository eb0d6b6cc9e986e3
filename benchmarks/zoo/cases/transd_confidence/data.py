"""Triples of a small graph of facts, each with three corrupted ones and how far it is to be trusted."""
import numpy as np

ENTITIES, RELATIONS, NEGATIVES = 90, 11, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(2, ENTITIES + 2)
    popularity = rng.permutation(popularity / popularity.sum())
    for _ in range(steps):
        h = rng.choice(ENTITIES, batch_size, p=popularity)
        r = rng.integers(0, RELATIONS, batch_size)
        t = (h + 7 * r + 1 + rng.integers(0, 3, batch_size)) % ENTITIES
        heads = np.repeat(h[:, None], NEGATIVES, 1)
        tails = np.repeat(t[:, None], NEGATIVES, 1)
        relations = np.repeat(r[:, None], NEGATIVES, 1)
        # two of the three lose their head or tail, the last its relation
        corrupt_head = rng.random((batch_size, 2)) < 0.5
        drawn = rng.integers(0, ENTITIES, (batch_size, 2))
        heads[:, :2] = np.where(corrupt_head, drawn, heads[:, :2])
        tails[:, :2] = np.where(corrupt_head, tails[:, :2], drawn)
        relations[:, 2] = (relations[:, 2] + rng.integers(1, RELATIONS, batch_size)) % RELATIONS
        confidence = np.clip(rng.beta(4, 2, batch_size), 0.05, 1.0)
        ints = {"pos_h": h, "pos_t": t, "pos_r": r, "neg_h": heads, "neg_t": tails, "neg_r": relations}
        yield dict({k: v.astype(np.int32) for k, v in ints.items()}, confidence=confidence.astype(np.float32))
