"""Videos that users watched next: of the user an age group, a country, the last videos (0 is padding) and three numbers, of the
video its id, channel and length, and how probable it is to be drawn into a batch."""
import numpy as np

AGES, COUNTRIES, VIDEOS, CHANNELS, HISTORY = 7, 12, 61, 15, 8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.full(VIDEOS - 1, 1.5))
    channel = rng.integers(0, CHANNELS, VIDEOS)
    taste = rng.integers(0, CHANNELS, (AGES, COUNTRIES))
    for _ in range(steps):
        user = np.stack([rng.integers(0, AGES, batch_size), rng.integers(0, COUNTRIES, batch_size)], 1)
        video = rng.choice(np.arange(1, VIDEOS), batch_size, p=popularity)
        n = rng.integers(1, HISTORY + 1, batch_size)
        history = rng.choice(np.arange(1, VIDEOS), (batch_size, HISTORY), p=popularity) * (np.arange(HISTORY) < n[:, None])
        numbers = rng.normal(0, 1, (batch_size, 3)) * [1.0, 2.0, 0.5] + [0.3, -1.0, 2.0]
        numbers[:, 0] += taste[user[:, 0], user[:, 1]] == channel[video]
        yield {"user": user.astype("int32"), "history": history.astype("int32"), "numbers": numbers.astype("float32"),
               "video": np.stack([video, channel[video]], 1).astype("int32"),
               "length": rng.lognormal(0, 0.6, (batch_size, 1)).astype("float32"),
               "sampling_p": popularity[video - 1].astype("float32")}
