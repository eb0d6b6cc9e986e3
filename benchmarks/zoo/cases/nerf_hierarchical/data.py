"""Rays of a camera on a sphere around a coloured ball in front of a white ground, with the draws of both samplers: the jitter of the
stratified samples and the uniform numbers of the importance samples."""
import numpy as np

COARSE, FINE = 10, 8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        origin = rng.normal(size=(batch_size, 3))
        origin *= 4.0 / np.linalg.norm(origin, axis=1, keepdims=True)
        aim = rng.normal(0, 0.8, size=(batch_size, 3))
        direction = aim - origin
        # the camera's rays have z = 1 in its own frame, not length 1
        direction *= rng.uniform(1.0, 1.3, size=(batch_size, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        along = -(origin * unit).sum(1)
        nearest = origin + along[:, None] * unit
        missed = np.clip(1.0 - (nearest ** 2).sum(1), 0, None)
        hit = origin + (along - np.sqrt(missed))[:, None] * unit
        colour = np.where(missed[:, None] > 0, 0.5 + 0.4 * np.sin(3 * hit), 1.0)
        yield {
            "rays_o": origin.astype("float32"),
            "rays_d": direction.astype("float32"),
            "target": np.clip(colour, 0, 1).astype("float32"),
            "t_rand": rng.uniform(size=(batch_size, COARSE)).astype("float32"),
            "u": rng.uniform(size=(batch_size, FINE)).astype("float32"),
        }
