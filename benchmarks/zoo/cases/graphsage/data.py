"""Edges of a random graph in four communities: source, destination, and a node that is no neighbour; samples of two hops.

A node with few neighbours has places left over in its sample: they hold node 0, and the mask is 0 there.
"""

import numpy as np

NODES, HOP1, HOP2 = 72, 4, 3


def _graph():
    rng = np.random.default_rng(11)
    community = np.arange(NODES) % 4
    chance = np.where(community[:, None] == community[None, :], 0.2, 0.015)
    edges = np.triu(rng.random((NODES, NODES)) < chance, 1)
    for node in range(NODES):  # everybody knows somebody
        friend = (node + 4) % NODES
        edges[min(node, friend), max(node, friend)] = True
    return edges | edges.T


def _sample(rng, edges, node, size):
    neighbours = rng.permutation(np.flatnonzero(edges[node]))[:size]
    ids, mask = np.zeros(size, int), np.zeros(size)
    ids[: len(neighbours)], mask[: len(neighbours)] = neighbours, 1.0
    return ids, mask


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    edges = _graph()
    links = np.argwhere(edges)
    for _ in range(steps):
        nodes = np.zeros((batch_size, 3), int)
        hop1, mask1 = np.zeros((batch_size, 3, HOP1), int), np.zeros((batch_size, 3, HOP1))
        hop2, mask2 = np.zeros((batch_size, 3, HOP1, HOP2), int), np.zeros((batch_size, 3, HOP1, HOP2))
        for example in range(batch_size):
            source, destination = links[rng.integers(len(links))]
            negative = rng.choice(np.flatnonzero(~edges[source]))
            nodes[example] = source, destination, negative
            for role in range(3):
                hop1[example, role], mask1[example, role] = _sample(rng, edges, nodes[example, role], HOP1)
                for place in range(HOP1):
                    around = _sample(rng, edges, hop1[example, role, place], HOP2)
                    hop2[example, role, place], mask2[example, role, place] = around
        yield {
            "nodes": nodes.astype("int32"),
            "hop1": hop1.astype("int32"),
            "hop2": hop2.astype("int32"),
            "mask1": mask1.astype("float32"),
            "mask2": mask2.astype("float32"),
        }
