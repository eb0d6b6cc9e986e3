"""Speeds on seven road sensors: a daily wave that runs along the road, with noise; the readings of a broken sensor are 0."""
import numpy as np

SENSORS, SEEN, AHEAD = 7, 5, 4
MEAN, STD = 54.0, 19.5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    lag = np.arange(SENSORS) * 0.35
    for _ in range(steps):
        start = rng.uniform(0, 1, (batch_size, 1))
        clock = start + np.arange(SEEN + AHEAD) / 40.0
        wave = np.sin(2 * np.pi * clock[:, :, None] - lag)
        speed = MEAN + 17.0 * wave + rng.normal(0, 4.0, (batch_size, SEEN + AHEAD, SENSORS))
        speed = np.clip(speed, 3.0, None) * (rng.random(speed.shape) > 0.12)
        time = np.broadcast_to(clock[:, :, None] % 1.0, speed.shape)
        x = np.stack([(speed - MEAN) / STD, time], axis=-1)[:, :SEEN]
        yield {"x": x.astype("float32"), "y": speed[:, SEEN:, :, None].astype("float32")}
