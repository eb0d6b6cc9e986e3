"""Triples of a user, an item of his history and one he has not touched, and how often he came back to the first (log)."""
import numpy as np

USERS, ITEMS = 40, 54


def history():
    return [sorted({(3 * user + 5 * j * j + 2 * j) % ITEMS for j in range(2 + user % 6)}) for user in range(USERS)]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    bought = history()
    for _ in range(steps):
        users = rng.integers(0, USERS, size=batch_size)
        positives = np.array([rng.choice(bought[user]) for user in users])
        negatives = []
        for user in users:
            item = rng.integers(0, ITEMS)
            while item in bought[user]:
                item = rng.integers(0, ITEMS)
            negatives.append(item)
        plays = rng.geometric(0.35, size=batch_size)
        yield {"users": users.astype(np.int32), "pos_items": positives.astype(np.int32),
               "neg_items": np.array(negatives, np.int32), "confidence": (0.5 + np.log1p(plays)).astype(np.float32)}
