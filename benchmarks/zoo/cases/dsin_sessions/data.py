"""Advertisements shown to users whose earlier clicks are cut into sessions: up to four of up to six clicks, each a category and a
brand, 0 for padding; at least one session each. With it two fields of the user and the price."""
import numpy as np

SEGMENTS, LEVELS, CATEGORIES, BRANDS = 9, 4, 24, 33
SESSIONS, CLICKS = 4, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    like = rng.normal(0, 1, (SEGMENTS, CATEGORIES))
    for _ in range(steps):
        user = np.stack([rng.integers(0, SEGMENTS, batch_size), rng.integers(0, LEVELS, batch_size)], 1)
        category = rng.integers(1, CATEGORIES, batch_size)
        brand = (category + rng.integers(0, 9, batch_size)) % (BRANDS - 1) + 1
        sess_length = rng.integers(1, SESSIONS + 1, batch_size)
        clicks = rng.integers(2, CLICKS + 1, (batch_size, SESSIONS))
        there = (np.arange(SESSIONS) < sess_length[:, None])[..., None] & (np.arange(CLICKS) < clicks[..., None])
        cate = rng.integers(1, CATEGORIES, there.shape)
        sessions = np.stack([cate, (cate + rng.integers(0, 9, there.shape)) % (BRANDS - 1) + 1], -1) * there[..., None]
        seen = (sessions[..., 0] == category[:, None, None]).any((1, 2))
        score = like[user[:, 0], category] + 1.5 * seen - 0.3
        yield {"user": user.astype("int32"), "target": np.stack([category, brand], 1).astype("int32"),
               "sessions": sessions.astype("int32"), "clicks": (clicks * there.any(-1)).astype("int32"),
               "sess_length": sess_length.astype("int32"), "price": rng.normal(0, 1, (batch_size, 1)).astype("float32"),
               "label": (rng.random(batch_size) < 1 / (1 + np.exp(-score))).astype("float32")}
