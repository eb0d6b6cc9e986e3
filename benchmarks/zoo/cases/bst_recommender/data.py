"""Histories of clicks in a shop with a few hundred views: users stay within categories for a while."""

import numpy as np

LENGTH, ITEMS, CATEGORIES, USERS, GAPS = 9, 45, 7, 17, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    category_of = rng.integers(1, CATEGORIES, size=ITEMS)
    for _ in range(steps):
        lengths = rng.integers(2, LENGTH + 1, size=batch_size)
        valid = np.arange(LENGTH) < lengths[:, None]
        items = np.where(valid, rng.integers(1, ITEMS, size=(batch_size, LENGTH)), 0)
        gaps = np.minimum(1 + np.cumsum(rng.integers(0, 3, size=(batch_size, LENGTH)), axis=1)[:, ::-1], GAPS - 1)
        target = rng.integers(1, ITEMS, size=batch_size)
        target_category = category_of[target]
        seen = ((category_of[items] == target_category[:, None]) & valid).sum(1)
        yield {
            "hist_items": items.astype("int32"),
            "hist_cates": np.where(valid, category_of[items], 0).astype("int32"),
            "hist_gaps": np.where(valid, gaps, 0).astype("int32"),
            "hist_len": lengths.astype("int32"),
            "item": target.astype("int32"),
            "cate": target_category.astype("int32"),
            "user": rng.integers(0, USERS, size=batch_size).astype("int32"),
            "dense": rng.standard_normal((batch_size, 3)).astype("float32"),
            "label": (rng.random(batch_size) < 1 / (1 + np.exp(1 - seen))).astype("float32"),
        }
