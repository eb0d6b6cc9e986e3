"""Impressions of a shop: a user with a few tags (0 pads them), an item and its price, whether it was clicked and bought.

Purchases are attributed to an impression even where the user came back by another way, without a click.
"""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    user_taste = rng.standard_normal((120, 4))
    item_style = rng.standard_normal((200, 4))
    for _ in range(steps):
        user = rng.integers(0, 120, size=batch_size)
        item = rng.integers(0, 200, size=batch_size)
        tags = rng.integers(1, 30, size=(batch_size, 5))
        count = rng.integers(1, 6, size=(batch_size, 1))
        tags = np.where(np.arange(5)[None, :] < count, tags, 0)
        price = np.exp(rng.normal(2.0, 1.0, size=batch_size))
        affinity = (user_taste[user] * item_style[item]).sum(1)
        click = rng.random(batch_size) < 1 / (1 + np.exp(-affinity))
        bought = rng.random(batch_size) < 0.5 / (1 + np.exp(0.5 * np.log(price) - affinity))
        late = rng.random(batch_size) < 0.3
        yield {
            "user": user.astype("int32"),
            "tags": tags.astype("int32"),
            "item": item.astype("int32"),
            "category": (item % 12).astype("int32"),
            "price": price.astype("float32"),
            "click": click.astype("float32"),
            "purchase": ((bought & click) | late).astype("float32"),
        }
