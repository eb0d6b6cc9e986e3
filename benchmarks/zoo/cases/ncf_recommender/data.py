"""Implicit feedback: users who like items of their own taste, popular items more often, sampled negatives."""
import numpy as np

USERS, ITEMS, NEGATIVES = 37, 53, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((USERS, 4))
    topic = rng.standard_normal((ITEMS, 4))
    popular = 1.0 / (1.0 + np.arange(ITEMS)) ** 0.7
    likes = np.exp(taste @ topic.T) * popular
    likes /= likes.sum(1, keepdims=True)
    active = rng.dirichlet(np.full(USERS, 0.8))
    for _ in range(steps):
        users = rng.choice(USERS, batch_size, p=active)
        items = np.array([rng.choice(ITEMS, p=likes[u]) for u in users])
        negatives = rng.choice(ITEMS, (batch_size, NEGATIVES), p=popular / popular.sum())
        plays = rng.geometric(0.3, batch_size)
        confidence = np.ones((batch_size, 1 + NEGATIVES), np.float32)
        confidence[:, 0] = 1.0 + 0.5 * np.log1p(plays)
        # a negative that happens to be something the user likes does not count
        known = likes[users[:, None], negatives] > 2.5 / ITEMS
        known |= negatives == items[:, None]
        confidence[:, 1:][known] = 0.0
        yield {
            "users": users.astype(np.int64),
            "items": items.astype(np.int64),
            "negatives": negatives.astype(np.int64),
            "confidence": confidence,
        }
