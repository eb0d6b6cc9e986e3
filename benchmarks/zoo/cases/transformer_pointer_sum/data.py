"""Articles of a toy language and summaries that pick words of them; some words are known to the article only.

Ids: 0 padding, 1 start, 2 unknown, from 3 words; from 40 on the words of an article that are not in the vocabulary.
"""

import numpy as np

VOCAB, EXTRA, SOURCE, TARGET = 40, 3, 12, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        article = rng.integers(3, VOCAB, size=(batch_size, SOURCE))
        article[:, 5:] = np.where(rng.random((batch_size, SOURCE - 5)) < 0.3, article[:, : SOURCE - 5], article[:, 5:])
        rare = rng.random(article.shape) < 0.2
        article = np.where(rare, VOCAB + rng.integers(0, EXTRA, size=article.shape), article)
        lengths = rng.integers(6, SOURCE + 1, size=(batch_size, 1))
        article = np.where(np.arange(SOURCE) < lengths, article, 0)
        picked = np.sort(rng.random((batch_size, TARGET)), axis=1) * lengths
        summary = np.take_along_axis(article, picked.astype(int), axis=1)
        summary = np.where(rng.random(summary.shape) < 0.25, rng.integers(3, VOCAB, size=summary.shape), summary)
        ends = rng.integers(3, TARGET + 1, size=(batch_size, 1))
        targets = np.where(np.arange(TARGET) < ends, summary, 0)
        inputs = np.concatenate([np.ones((batch_size, 1), int), targets[:, :-1]], axis=1)
        yield {
            "article": article.astype("int32"),
            "inputs": np.where(inputs >= VOCAB, 2, inputs).astype("int32"),
            "targets": targets.astype("int32"),
            "weights": (targets > 0).astype("float32"),
        }
