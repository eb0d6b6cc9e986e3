"""Clicks on items of a small knowledge graph. Of each user come the ripple sets: for every hop, triples of head, relation and tail,
the first ones with clicked items as heads, the next ones with the tails before them."""
import numpy as np

ENTITIES, RELATIONS, ITEMS = 60, 5, 25
HOPS, MEMORY = 2, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    tails = rng.integers(0, ENTITIES, (ENTITIES, RELATIONS))
    for _ in range(steps):
        items = rng.integers(0, ITEMS, batch_size)
        memories = np.zeros((batch_size, 3, HOPS, MEMORY), "int32")
        clicked = rng.integers(0, ITEMS, (batch_size, 4))
        clicked[::2, 0] = items[::2]
        seeds = clicked
        for hop in range(HOPS):
            h = np.take_along_axis(seeds, rng.integers(0, seeds.shape[1], (batch_size, MEMORY)), 1)
            r = rng.integers(0, RELATIONS, (batch_size, MEMORY))
            t = tails[h, r]
            memories[:, 0, hop], memories[:, 1, hop], memories[:, 2, hop] = h, r, t
            seeds = t
        labels = (rng.random(batch_size) < np.where(np.arange(batch_size) % 2 == 0, 0.85, 0.2)).astype("float32")
        yield {"items": items.astype("int32"), "labels": labels, "memories_h": memories[:, 0], "memories_r": memories[:, 1],
               "memories_t": memories[:, 2]}
