"""Impressions of ads: a user, an ad, a site, the ads clicked before (0 is padding), three counts, and whether it was clicked."""

import numpy as np

USERS, ADS, SITES, CLICKED, LONGEST = 19, 23, 13, 31, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((USERS, 3))
    topic = rng.standard_normal((ADS, 3))
    for _ in range(steps):
        user = rng.integers(0, USERS, size=batch_size)
        ad = rng.integers(0, ADS, size=batch_size)
        lengths = rng.integers(0, LONGEST + 1, size=batch_size)
        history = rng.integers(1, CLICKED, size=(batch_size, LONGEST))
        history[np.arange(LONGEST)[None, :] >= lengths[:, None]] = 0
        odds = (taste[user] * topic[ad]).sum(1) - 0.3
        yield {
            "user": user.astype("int32"),
            "ad": ad.astype("int32"),
            "site": rng.integers(0, SITES, size=batch_size).astype("int32"),
            "history": history.astype("int32"),
            "history_length": lengths.astype("int32"),
            "counts": rng.geometric(0.2, size=(batch_size, 3)).astype("float32"),
            "labels": (rng.random(batch_size) < 1 / (1 + np.exp(-odds))).astype("float32"),
        }
