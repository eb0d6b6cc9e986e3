"""Small clusters of three heavy and five light atoms, with energies and forces of a pair potential of Morse's form."""
import numpy as np

TYPES = np.array([0, 0, 0, 1, 1, 1, 1, 1])
REST = np.array([[2.6, 1.8], [1.8, 1.4]])
DEPTH = np.array([[0.3, 0.9], [0.9, 0.2]])


def morse(coord):
    delta = coord[:, :, None] - coord[:, None]
    r = np.sqrt((delta ** 2).sum(-1)) + np.eye(len(TYPES))
    rest, depth = REST[TYPES][:, TYPES], DEPTH[TYPES][:, TYPES] * (1 - np.eye(len(TYPES)))
    e = np.exp(-1.2 * (r - rest))
    energy = (depth * (e * e - 2 * e)).sum((1, 2)) / 2
    slope = depth * (-2.4 * e * e + 2.4 * e)
    return energy, -((slope / r)[..., None] * delta).sum(2)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), axis=-1).reshape(-1, 3) * 2.1
    for _ in range(steps):
        place = np.stack([grid[rng.permutation(8)] for _ in range(batch_size)])
        coord = place * rng.uniform(0.8, 1.15, (batch_size, 1, 1)) + rng.normal(0, 0.18, (batch_size, 8, 3))
        energy, force = morse(coord)
        yield {"coord": coord.astype("float32"), "energy": energy.astype("float32"), "force": force.astype("float32")}
