"""Molecules of 3 to 7 atoms grown at random, padded with element 0 at the origin; energies and dipole moments by a rule of pairs."""
import numpy as np

ATOMS = 7
CHARGE = {1: 0.25, 6: -0.125, 7: -0.375, 8: -0.5}
ALONE = {1: -0.5, 6: -1.75, 7: -2.25, 8: -3.5}


def grow(rng, n):
    places = [np.zeros(3)]
    while len(places) < n:
        step = rng.normal(0, 1, 3)
        new = places[rng.integers(len(places))] + step / np.linalg.norm(step) * rng.uniform(1.0, 1.5)
        if min(np.linalg.norm(new - p) for p in places) > 0.9:
            places.append(new)
    return np.array(places) + rng.normal(0, 0.5, 3)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        numbers = np.zeros((batch_size, ATOMS), "int32")
        positions = np.zeros((batch_size, ATOMS, 3))
        energy, dipole = np.zeros(batch_size), np.zeros(batch_size)
        for b in range(batch_size):
            n = int(rng.integers(3, ATOMS + 1))
            z = rng.choice([1, 6, 7, 8], n, p=[0.45, 0.3, 0.1, 0.15])
            r = grow(rng, n)
            numbers[b, :n], positions[b, :n] = z, r
            q = np.array([CHARGE[k] for k in z])
            distance = np.linalg.norm(r[:, None] - r[None], axis=-1) + 10 * np.eye(n)
            energy[b] = sum(ALONE[k] for k in z) - 0.6 * np.exp(-(distance - 1.2) ** 2).sum() / 2 + (np.outer(q, q) / distance).sum() / 2
            dipole[b] = np.linalg.norm(((q - q.mean())[:, None] * r).sum(0))
        yield {"numbers": numbers, "positions": positions.astype("float32"), "energy": energy.astype("float32"),
               "dipole": dipole.astype("float32")}
