"""Daily sales of shops: seasonal, with promotions that are known ahead; twelve days are seen and four to be forecast."""
import numpy as np

PAST, FUTURE, SHOPS, DAYS = 12, 4, 6, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    level, week = rng.normal(0, 0.6, SHOPS), rng.normal(0, 0.7, (SHOPS, DAYS))
    total = PAST + FUTURE
    for _ in range(steps):
        shop = rng.integers(0, SHOPS, batch_size).astype("int32")
        size = rng.normal(0, 1, (batch_size, 1))
        day = (rng.integers(0, DAYS, (batch_size, 1)) + np.arange(total)) % DAYS
        promotion = (rng.random((batch_size, total)) < 0.25) * rng.uniform(0.5, 1.5, (batch_size, total))
        weather = np.cumsum(rng.normal(0, 0.4, (batch_size, total)), 1)
        sales = level[shop][:, None] + 0.4 * size + week[shop[:, None], day] + 0.8 * promotion - 0.2 * weather
        sales = sales + rng.normal(0, 0.2, sales.shape)
        yield {"shop": shop, "size": size.astype("float32"), "day": day.astype("int32"), "promotion": promotion.astype("float32"),
               "weather": weather[:, :PAST].astype("float32"), "history": sales[:, :PAST].astype("float32"),
               "sales": sales[:, PAST:].astype("float32")}
