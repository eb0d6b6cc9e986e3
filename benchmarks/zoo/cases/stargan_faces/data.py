"""Face-like pictures in [-1, 1] with three attributes, the attributes to translate to, and the penalty's draws."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16]
    for _ in range(steps):
        attributes = rng.integers(0, 2, size=(batch_size, 3))
        faces = np.full((batch_size, 16, 16, 3), -0.6)
        for n, (dark, wide, smiling) in enumerate(attributes):
            face = ((y - 8) / 7) ** 2 + ((x - 8) / (6 if wide else 4)) ** 2 < 1
            hair = face & (y < 4)
            mouth = abs(y - 11 - (0.1 * (x - 8) ** 2 if not smiling else -0.1 * (x - 8) ** 2)) < 0.8
            faces[n][face] = rng.uniform(0.2, 0.8, size=3)
            faces[n][hair] = -0.8 if dark else 0.5
            faces[n][mouth & face & (abs(x - 8) < 4)] = [0.6, -0.4, -0.4]
        faces += 0.1 * rng.standard_normal(faces.shape)
        yield {
            "real": np.clip(faces, -1, 1).astype("float32"),
            "label_org": attributes.astype("float32"),
            "label_trg": attributes[rng.permutation(batch_size)].astype("float32"),
            "alpha": rng.uniform(0, 1, size=(batch_size, 1, 1, 1)).astype("float32"),
        }
