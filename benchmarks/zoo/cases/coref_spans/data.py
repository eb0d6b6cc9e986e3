"""Short documents with candidate spans in the order in which they begin. A span's last word tells its entity, 0 is no entity at all."""
import numpy as np

VOCAB, LONGEST, SPANS, MAX_WIDTH, ENTITIES = 50, 16, 9, 4, 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        words = np.zeros((batch_size, LONGEST), "int32")
        mask = np.zeros((batch_size, LONGEST), "float32")
        starts = np.zeros((batch_size, SPANS), "int32")
        ends = np.zeros((batch_size, SPANS), "int32")
        clusters = np.zeros((batch_size, SPANS), "int32")
        for row in range(batch_size):
            n = int(rng.integers(SPANS + 2, LONGEST + 1))
            words[row, :n] = rng.integers(1, VOCAB, n)
            mask[row, :n] = 1
            starts[row] = np.sort(rng.choice(n, SPANS, replace=False))
            ends[row] = np.minimum(starts[row] + rng.integers(0, MAX_WIDTH, SPANS), n - 1)
            clusters[row] = words[row, ends[row]] % (ENTITIES + 1)
        yield {"words": words, "text_mask": mask, "starts": starts, "ends": ends, "cluster_ids": clusters}
