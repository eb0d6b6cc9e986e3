"""Pictures of made-up products in 0..255. Every run of twelve has four products, three pictures of each."""
import numpy as np

SIZE, PRODUCTS, RUN, VIEWS = 20, 11, 12, 3


def picture(rng, product):
    own = np.random.default_rng(1000 + product)
    colour, angle, wide, tall = own.uniform(40, 230, 3), own.uniform(0, np.pi), own.uniform(0.15, 0.4), own.uniform(0.15, 0.4)
    stripes, second = own.integers(1, 5), own.uniform(40, 230, 3)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    y, x = y - rng.uniform(0.4, 0.6), x - rng.uniform(0.4, 0.6)
    turn = angle + rng.normal(0, 0.2)
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    inside = (u / wide) ** 2 + (v / tall) ** 2 < 1
    striped = np.where((np.sin(2 * np.pi * stripes * u / wide) > 0)[..., None], colour, second)
    image = np.where(inside[..., None], striped, rng.uniform(90, 200, 3)) * rng.uniform(0.8, 1.1)
    return np.clip(np.round(image + rng.normal(0, 8, image.shape)), 0, 255)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        labels = []
        while len(labels) < batch_size:
            labels += rng.permutation(np.repeat(rng.choice(PRODUCTS, RUN // VIEWS, replace=False), VIEWS)).tolist()
        labels = np.array(labels[:batch_size])
        yield {"images": np.stack([picture(rng, k) for k in labels]).astype(np.float32), "labels": labels.astype(np.int32)}
