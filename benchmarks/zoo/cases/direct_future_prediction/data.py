"""What an agent remembers of a maze: a grey view, its measurements (ammo, health, frags), the goal it followed, what it did, and
how the measurements had changed after 1, 2, 4 and 8 steps. Where the episode ended before, there is no target."""
import numpy as np

SIZE, ACTIONS, MEASUREMENTS, OFFSETS = 20, 5, 3, (1, 2, 4, 8)


def view(rng):
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    horizon = rng.uniform(0.35, 0.6)
    image = np.where(y < horizon, 70 + 60 * y, 150 - 50 * (y - horizon))
    for _ in range(rng.integers(1, 4)):
        left, width, dark = rng.uniform(0, 0.8), rng.uniform(0.1, 0.3), rng.uniform(-90, 90)
        image = image + dark * ((x >= left) & (x < left + width) & (np.abs(y - horizon) < width))
    return np.clip(np.round(image + rng.normal(0, 6, image.shape)), 0, 255)[..., None]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = np.stack([view(rng) for _ in range(batch_size)])
        measurements = np.stack([rng.integers(0, 60, batch_size), rng.integers(1, 101, batch_size),
                                 rng.integers(0, 20, batch_size)], 1)
        goals = rng.choice([0.0, 0.5, 1.0], size=(batch_size, len(OFFSETS) * MEASUREMENTS)) * rng.choice([-1, 1], size=(batch_size, 1))
        actions = rng.integers(0, ACTIONS, batch_size)
        brightness = images.mean((1, 2, 3)) / 255
        trend = np.stack([actions - 2.0, 8 * (brightness - 0.4), np.where(actions == 3, 1.5, -0.2)], 1)
        targets = trend[:, None] * np.sqrt(OFFSETS)[None, :, None] * 3 + rng.normal(0, 2, (batch_size, len(OFFSETS), MEASUREMENTS))
        left = rng.choice([1, 3, 6, 20, 20, 20], size=batch_size)
        valid = np.repeat((np.array(OFFSETS)[None] <= left[:, None])[..., None], MEASUREMENTS, 2)
        targets = np.where(valid, targets, 0.0)
        yield {"images": images.astype(np.float32), "measurements": measurements.astype(np.float32),
               "goals": goals.astype(np.float32), "actions": actions.astype(np.int32),
               "targets": targets.reshape(batch_size, -1).astype(np.float32),
               "valid": valid.reshape(batch_size, -1).astype(np.float32)}
