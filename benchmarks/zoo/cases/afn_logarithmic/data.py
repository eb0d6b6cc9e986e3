"""A table of six fields, each with a feature's index in a common numbering and its value (1 of categories, a number for the last two);
the label follows a product of some of them."""
import numpy as np

SIZES = (9, 5, 12, 7, 1, 1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    first = np.cumsum((0,) + SIZES[:-1])
    taste = [rng.lognormal(0, 0.6, size) for size in SIZES]
    for _ in range(steps):
        rows = np.stack([np.minimum(rng.geometric(0.35, batch_size) - 1, size - 1) for size in SIZES], axis=1)
        value = np.ones((batch_size, len(SIZES)))
        value[:, 4:] = rng.gamma(2.0, 0.6, (batch_size, 2)) + 0.05
        weight = np.stack([t[rows[:, i]] for i, t in enumerate(taste)], axis=1) * value
        score = np.log(weight[:, 0] * weight[:, 2] * weight[:, 4]) + rng.normal(0, 0.5, batch_size)
        yield {"feat_index": (rows + first).astype("int32"), "feat_value": value.astype("float32"),
               "label": (score > 0.1).astype("float32")}
