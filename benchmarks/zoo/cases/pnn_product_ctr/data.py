"""Rows of sparse features, an index and a value per field, a binary label, and the masks of dropout: 0 or 1 / keep."""

import numpy as np

FIELD_SIZES = (14, 10, 8, 16, 1)
KEEP = 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(FIELD_SIZES)[:-1]])
    effect = rng.standard_normal(sum(FIELD_SIZES))
    for _ in range(steps):
        index = np.stack([offset + rng.integers(0, size, batch_size) for offset, size in zip(offsets, FIELD_SIZES)], axis=1)
        value = np.ones((batch_size, len(FIELD_SIZES)))
        value[:, -1] = rng.gamma(2.0, 0.5, batch_size)
        value[:, 3] = rng.uniform(0.3, 1.0, batch_size)
        score = (effect[index] * value).sum(1) + effect[index[:, 0]] * effect[index[:, 1]]
        label = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        masks = {"keep_%d" % i: ((rng.random((batch_size, n)) < KEEP) / KEEP).astype("float32")
                 for i, n in enumerate((12, 20, 16))}
        yield {"feat_index": index.astype("int32"), "feat_value": value.astype("float32"),
               "label": label.astype("float32")[:, None], **masks}
