"""Grey faces of a few strokes in 0..255, and what the generator starts from."""
import numpy as np

SIZE, Z_DIM = 16, 16


def face(rng):
    y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1) * 2 - 1
    skin, ground = rng.uniform(130, 240), rng.uniform(0, 110)
    wide, tall = rng.uniform(0.5, 0.8), rng.uniform(0.65, 0.95)
    image = np.where((x / wide) ** 2 + (y / tall) ** 2 < 1, skin, ground)
    apart, eye = rng.uniform(0.2, 0.35), rng.uniform(0.08, 0.16)
    for side in (-1, 1):
        image = np.where((x - side * apart) ** 2 + (y + 0.25) ** 2 < eye ** 2, skin - 110, image)
    smile = rng.uniform(-0.4, 0.6)
    image = np.where((np.abs(y - 0.45 + smile * x ** 2) < 0.1) & (np.abs(x) < 0.35), skin - 90, image)
    return np.clip(np.round(image + rng.normal(0, 5, image.shape)), 0, 255)[..., None]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"images": np.stack([face(rng) for _ in range(batch_size)]).astype(np.float32),
               "z": rng.uniform(-1, 1, size=(batch_size, Z_DIM)).astype(np.float32)}
