"""Random binary trees in postorder, padded; children are node numbers from 1, 0 is no child. Words stand at leaves only, mask is 1 for real nodes."""

import numpy as np

NODES = 9


def _grow(rng, leaves, nodes):
    """Appends a random tree of so many leaves to `nodes`; returns the number of its root, from 1."""
    if leaves == 1:
        nodes.append((int(rng.integers(1, 30)), 0, 0))
        return len(nodes)
    at = int(rng.integers(1, leaves))
    left = _grow(rng, at, nodes)
    right = _grow(rng, leaves - at, nodes)
    nodes.append((0, left, right))
    return len(nodes)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        table = np.zeros((3, batch_size, NODES), "int32")
        labels = np.zeros((batch_size, NODES), "int32")
        sizes = np.zeros(batch_size, "int32")
        for i in range(batch_size):
            nodes = []
            _grow(rng, int(rng.integers(2, 6)), nodes)
            sizes[i] = len(nodes)
            table[:, i, : len(nodes)] = np.array(nodes).T
            polarity = {0: 0}
            for number, (word, left, right) in enumerate(nodes, 1):
                polarity[number] = word % 5 - 2 if word else polarity[left] + polarity[right]
                labels[i, number - 1] = np.clip(polarity[number], -2, 2) + 2
        mask = (np.arange(NODES)[None, :] < sizes[:, None]).astype("float32")
        yield {"words": table[0], "left": table[1], "right": table[2], "sizes": sizes, "mask": mask, "labels": labels}
