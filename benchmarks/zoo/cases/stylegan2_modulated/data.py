"""Real pictures: soft two-coloured blobs in [-1, 1]. With them come the latents and the noise of every synthesis layer."""
import numpy as np

SIZE, LATENT, NOISES = 16, 12, (4, 8, 8, 16, 16)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1) * 2 - 1
    for _ in range(steps):
        centre = rng.uniform(-0.5, 0.5, (batch_size, 2, 1, 1))
        radius = rng.uniform(0.3, 0.7, (batch_size, 1, 1))
        inside = 1 / (1 + np.exp(12 * (np.hypot(y - centre[:, 0], x - centre[:, 1]) - radius)))[..., None]
        front, back = rng.uniform(-0.9, 0.9, (2, batch_size, 1, 1, 3))
        batch = {"reals": inside * front + (1 - inside) * back, "latents": rng.standard_normal((batch_size, LATENT))}
        for i, size in enumerate(NOISES):
            batch["noise%d" % i] = rng.standard_normal((batch_size, size, size, 1))
        yield {name: value.astype("float32") for name, value in batch.items()}
