"""Daily page views: a level, a weekly rhythm, bursts and missing days; the last days are to be predicted."""
import numpy as np

DAYS, HORIZON = 21, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        total = DAYS + HORIZON
        day = np.arange(total)[None] + rng.integers(0, 7, (batch_size, 1))
        weekly = np.stack([np.sin(2 * np.pi * day / 7), np.cos(2 * np.pi * day / 7)], -1)
        level = rng.uniform(0.5, 4.5, (batch_size, 1))
        views = np.exp(level + 0.4 * rng.standard_normal((batch_size, 1)) * weekly[..., 0] +
                       0.3 * rng.standard_normal((batch_size, total)))
        views *= np.where(rng.random((batch_size, total)) < 0.05, 4.0, 1.0)
        hits = np.log1p(np.floor(views))
        known = rng.random((batch_size, total)) > 0.12
        known[:, -1] = True
        hits = np.where(known, hits, 0.0)
        mean, std = hits[:, :DAYS].mean(1), hits[:, :DAYS].std(1) + 0.1
        normal = (hits - mean[:, None]) / std[:, None]
        country = np.eye(3)[rng.integers(0, 3, batch_size)]
        x = np.concatenate([normal[:, :DAYS, None], weekly[:, :DAYS], known[:, :DAYS, None]], -1)
        yield {"x": x.astype(np.float32), "x_last": normal[:, DAYS - 1].astype(np.float32),
               "y_features": weekly[:, DAYS:].astype(np.float32), "page": country.astype(np.float32),
               "norm_mean": mean.astype(np.float32), "norm_std": std.astype(np.float32),
               "true_y": hits[:, DAYS:].astype(np.float32), "known": known[:, DAYS:].astype(np.float32)}
