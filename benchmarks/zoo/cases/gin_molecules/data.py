"""Random trees with a few rings closed, as padded molecules; some labels of the tasks are missing."""

import numpy as np

MAX_ATOMS, MAX_BONDS, TASKS = 11, 26, 5


def molecule(rng):
    count = rng.integers(5, MAX_ATOMS + 1)
    atoms = np.zeros((MAX_ATOMS, 3), "int32")
    atoms[:count] = np.stack([rng.integers(0, n, size=count) for n in (9, 4, 6)], axis=1)
    pairs = [(rng.integers(max(0, i - 3), i), i, 0) for i in range(1, count)]
    pairs += [(i, i + 4, 1) for i in rng.choice(count - 4, size=min(2, count - 4), replace=False)]
    bonds = np.zeros((MAX_BONDS, 2), "int32")
    features = np.zeros((MAX_BONDS, 2), "int32")
    for k, (a, b, ring) in enumerate(pairs):
        bonds[2 * k : 2 * k + 2] = (a, b), (b, a)
        features[2 * k : 2 * k + 2] = rng.integers(0, 4), ring
    return atoms, count, bonds, features, 2 * len(pairs)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        atoms, atom_counts, bonds, bond_features, bond_counts = zip(*(molecule(rng) for _ in range(batch_size)))
        yield {
            "atoms": np.stack(atoms),
            "atom_counts": np.array(atom_counts, "int32"),
            "bonds": np.stack(bonds),
            "bond_features": np.stack(bond_features),
            "bond_counts": np.array(bond_counts, "int32"),
            "labels": (rng.random((batch_size, TASKS)) < 0.4).astype("float32"),
            "label_weights": (rng.random((batch_size, TASKS)) < 0.7).astype("float32"),
        }
