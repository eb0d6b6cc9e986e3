"""Triples of a small knowledge graph with sampled negatives: entities that stand in for the head or for the tail."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        head = rng.integers(0, 150, size=batch_size)
        relation = rng.integers(0, 14, size=batch_size)
        tail = (head * 3 + 7 * relation + rng.integers(0, 3, size=batch_size)) % 150
        frequency = rng.integers(4, 40, size=batch_size)
        yield {
            "head": head.astype("int32"),
            "relation": relation.astype("int32"),
            "tail": tail.astype("int32"),
            "negatives": rng.integers(0, 150, size=(batch_size, 8)).astype("int32"),
            "corrupt_head": (rng.random(batch_size) < 0.5).astype("float32"),
            "subsampling": np.sqrt(1.0 / frequency).astype("float32"),
        }
