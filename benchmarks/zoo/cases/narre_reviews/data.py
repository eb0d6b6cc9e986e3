"""Ratings with the reviews that the user has written and that the item has got before, as word ids, who wrote or got them, 0 for
padding in words and ids."""
import numpy as np

USERS, ITEMS, WORDS = 24, 18, 70
REVIEWS_U, REVIEWS_I, LENGTH = 4, 5, 9


def reviews(rng, moods, ids, how_many):
    shape = (len(moods), how_many)
    kept = np.arange(how_many) < rng.integers(1, how_many + 1, len(moods))[:, None]
    length = rng.integers(4, LENGTH + 1, shape)
    words = rng.integers(1, WORDS // 2, shape + (LENGTH,)) + (rng.random(shape + (LENGTH,)) < moods[:, None, None]) * (WORDS // 2)
    words = words * (np.arange(LENGTH) < length[..., None]) * kept[..., None]
    return words.astype("int32"), (rng.integers(1, ids + 1, shape) * kept).astype("int32")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    kind, good = rng.random(USERS + 1), rng.random(ITEMS + 1)
    for _ in range(steps):
        uid, iid = rng.integers(1, USERS + 1, batch_size), rng.integers(1, ITEMS + 1, batch_size)
        input_u, reuid = reviews(rng, kind[uid], ITEMS, REVIEWS_U)
        input_i, reiid = reviews(rng, good[iid], USERS, REVIEWS_I)
        rating = np.clip(np.round(1 + 2 * kind[uid] + 2 * good[iid] + rng.normal(0, 0.4, batch_size)), 1, 5)
        yield {"input_u": input_u, "input_i": input_i, "reuid": reuid, "reiid": reiid, "uid": uid.astype("int32")[:, None],
               "iid": iid.astype("int32")[:, None], "y": rating.astype("float32")[:, None]}
