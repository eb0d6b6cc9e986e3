"""Sharp pictures of bars and discs in 0..1, and the same smeared along a random direction, as by a moved camera."""
import numpy as np

SIZE = 32


def sharp_picture(rng):
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    image = np.ones((SIZE, SIZE, 3)) * rng.uniform(0.2, 0.6, 3)
    for _ in range(6):
        cy, cx, r = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.08, 0.3)
        angle = rng.uniform(0, np.pi)
        u, v = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle), (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
        inside = u * u + v * v < r * r if rng.random() < 0.4 else (np.abs(u) < r) & (np.abs(v) < 0.3 * r)
        image[inside] = rng.uniform(0, 1, 3)
    return image


def smeared(image, rng):
    dy, dx = rng.uniform(-1, 1, 2)
    shifts = [np.roll(image, (round(dy * t), round(dx * t)), (0, 1)) for t in range(-3, 4)]
    return np.clip(np.mean(shifts, 0) + 0.01 * rng.standard_normal(image.shape), 0, 1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        sharp = np.stack([sharp_picture(rng) for _ in range(batch_size)])
        blurred = np.stack([smeared(image, rng) for image in sharp])
        yield {"blurred": blurred.astype(np.float32), "sharp": sharp.astype(np.float32)}
