"""Triples of user, seen item and unseen item, with the graph's normalised adjacency as a dense matrix.

The graph is the same for every triple, and comes once with each so that it can be cut like the rest of the batch."""

import numpy as np

USERS, ITEMS = 37, 29


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste, topic = rng.standard_normal((USERS, 4)), rng.standard_normal((ITEMS, 4))
    score = taste @ topic.T + 0.5 * rng.standard_normal((USERS, ITEMS))
    seen = score >= np.sort(score, axis=1)[:, [-6]]
    nodes = USERS + ITEMS
    graph = np.zeros((nodes, nodes))
    graph[:USERS, USERS:] = seen
    graph[USERS:, :USERS] = seen.T
    graph += np.eye(nodes)
    adjacency = (graph / graph.sum(axis=1, keepdims=True)).astype("float32")
    for _ in range(steps):
        users = rng.integers(0, USERS, size=batch_size)
        positive = np.array([rng.choice(np.flatnonzero(seen[u])) for u in users])
        negative = np.array([rng.choice(np.flatnonzero(~seen[u])) for u in users])
        yield {
            "users": users.astype("int32"),
            "pos_items": positive.astype("int32"),
            "neg_items": negative.astype("int32"),
            "adjacency": np.repeat(adjacency[None], batch_size, axis=0),
        }
