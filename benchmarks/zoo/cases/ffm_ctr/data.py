"""Impressions of five single-valued fields with a value each, and a padded list of tags; clicks follow a hidden score."""

import numpy as np

FIELD_SIZES = (8, 10, 12, 6, 5)
NUM_TAGS = 9
MAX_TAGS = 4


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    scores = [rng.standard_normal(size) for size in FIELD_SIZES]
    tag_scores = rng.standard_normal(NUM_TAGS)
    for _ in range(steps):
        fields = np.stack([(size * rng.random(batch_size) ** 1.5).astype(int) for size in FIELD_SIZES], axis=1)
        values = np.exp(0.4 * rng.standard_normal(fields.shape))
        counts = rng.integers(1, MAX_TAGS + 1, size=(batch_size, 1))
        mask = np.arange(MAX_TAGS)[None, :] < counts
        tags = np.where(mask, rng.integers(0, NUM_TAGS, size=mask.shape), 0)
        score = sum(s[fields[:, i]] for i, s in enumerate(scores)) + (tag_scores[tags] * mask).sum(1) / counts[:, 0]
        clicked = score + rng.logistic(size=batch_size) > 0.8
        yield {
            "fields": fields.astype("int32"),
            "values": values.astype("float32"),
            "tags": tags.astype("int32"),
            "tag_mask": mask.astype("float32"),
            "clicked": clicked.astype("float32"),
            # negatives are sampled, and stand for several
            "importance": np.where(clicked, 1.0, rng.uniform(1.5, 3.0, batch_size)).astype("float32"),
        }
