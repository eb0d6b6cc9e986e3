"""Impressions of a shop: six categorical fields, a weighted bag of interest tags (0 is padding), and two labels, click and purchase,
of which the second needs the first."""
import numpy as np

VOCAB = [31, 13, 7, 22, 5, 17]
TAGS, LONGEST = 40, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = [rng.normal(0, 1, n) for n in VOCAB]
    for _ in range(steps):
        feats = np.stack([rng.integers(0, n, batch_size) for n in VOCAB], 1)
        count = rng.integers(1, LONGEST + 1, batch_size)
        filled = np.arange(LONGEST) < count[:, None]
        tags = rng.integers(1, TAGS, (batch_size, LONGEST)) * filled
        weights = rng.uniform(0.2, 1.8, (batch_size, LONGEST)) * filled
        score = sum(t[feats[:, i]] for i, t in enumerate(taste)) / 2
        click = rng.random(batch_size) < 1 / (1 + np.exp(-score))
        buy = click & (rng.random(batch_size) < 0.4)
        yield {"feats": feats.astype("int32"), "tags": tags.astype("int32"), "tag_weights": weights.astype("float32"),
               "labels": np.stack([click, buy], 1).astype("float32")}
