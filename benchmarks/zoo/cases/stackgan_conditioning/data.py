"""Small pictures of one coloured blob in -1..1, a made-up sentence embedding that describes position, size and colour,
a picture of another description, and the noise of generator and conditioning."""
import numpy as np

SIZE, EMBEDDING, NOISE, CONDITION = 16, 20, 6, 8
PROJECTION = np.random.default_rng(99).standard_normal((6, EMBEDDING)) / 2


def picture(rng):
    y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1)
    description = rng.uniform(-1, 1, 6)
    cy, cx = 0.5 + 0.3 * description[0], 0.5 + 0.3 * description[1]
    blob = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (0.04 + 0.02 * description[2]))
    image = 2 * blob[..., None] * description[3:] - 0.4 + 0.1 * rng.standard_normal((SIZE, SIZE, 3))
    return np.clip(image, -1, 1), description @ PROJECTION + 0.1 * rng.standard_normal(EMBEDDING)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images, embeddings = zip(*[picture(rng) for _ in range(batch_size)])
        wrong = [picture(rng)[0] for _ in range(batch_size)]
        batch = {"images": np.stack(images), "wrong_images": np.stack(wrong), "embeddings": np.stack(embeddings),
                 "z": rng.standard_normal((batch_size, NOISE)),
                 "epsilon": rng.standard_normal((batch_size, CONDITION)).clip(-2, 2)}
        yield {name: value.astype(np.float32) for name, value in batch.items()}
