"""Articles and summaries that copy from them. Words from VOCAB on are the article's own extra ids.

Ids 0 to 3 are padding, unknown, start and stop.
"""

import numpy as np

VOCAB, OOVS = 48, 3
ARTICLE, SUMMARY = 13, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        article = np.zeros((batch_size, ARTICLE), "int32")
        inputs = np.zeros((batch_size, SUMMARY), "int32")
        targets = np.zeros((batch_size, SUMMARY), "int32")
        for row in range(batch_size):
            n, m = rng.integers(8, ARTICLE + 1), rng.integers(3, SUMMARY)
            topic = rng.integers(4, VOCAB, size=5)
            topic[0] = VOCAB + rng.integers(0, OOVS)
            words = topic[rng.integers(0, 5, size=n)]
            summary = words[np.sort(rng.permutation(n)[:m])]
            article[row, :n] = words
            inputs[row, : m + 1] = [2, *np.where(summary < VOCAB, summary, 1)]
            targets[row, : m + 1] = [*summary, 3]
        yield {
            "enc_batch": np.where(article < VOCAB, article, 1).astype("int32"),
            "enc_batch_extend_vocab": article,
            "enc_padding_mask": (article > 0).astype("float32"),
            "dec_batch": inputs,
            "target_batch": targets,
            "dec_padding_mask": (targets > 0).astype("float32"),
        }
