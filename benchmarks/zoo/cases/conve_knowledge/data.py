"""Triples of a small knowledge graph, one query (head, relation) against all entities: relations are near-translations on a ring."""
import numpy as np

ENTITIES, RELATIONS = 37, 9


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    offset = rng.integers(1, ENTITIES, RELATIONS)
    many = rng.integers(1, 5, RELATIONS)
    popular = rng.permutation(1 / np.arange(2, ENTITIES + 2))
    for _ in range(steps):
        head = rng.choice(ENTITIES, batch_size, p=popular / popular.sum()).astype("int32")
        relation = rng.integers(0, RELATIONS, batch_size).astype("int32")
        targets = np.zeros((batch_size, ENTITIES), "float32")
        for i, (h, r) in enumerate(zip(head, relation)):
            tails = (h + offset[r] + np.arange(many[r]) * (1 + r % 2)) % ENTITIES
            targets[i, tails] = 1
        yield {"e1": head, "rel": relation, "e2_multi": targets}
