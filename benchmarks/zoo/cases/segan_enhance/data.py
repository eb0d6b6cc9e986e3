"""Short pieces of chirps in noise, a reference batch beside them, and the code that the generator draws."""
import numpy as np

SAMPLES, CODE_STEPS, CODE = 64, 8, 12


def speech(rng, count):
    t = np.arange(SAMPLES) / SAMPLES
    base, bend = rng.uniform(2, 7, (count, 1)), rng.uniform(-3, 3, (count, 1))
    phase, loud = rng.uniform(0, 2 * np.pi, (count, 1)), rng.uniform(0.3, 0.8, (count, 1))
    return loud * np.sin(2 * np.pi * (base * t + bend * t ** 2) + phase) * np.exp(-((t - 0.5) ** 2) * rng.uniform(0, 6, (count, 1)))


def preemphasis(x, factor=0.95):
    return np.concatenate([x[:, :1], x[:, 1:] - factor * x[:, :-1]], axis=1)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    reference = speech(rng, batch_size)
    reference_noise = 0.25 * rng.standard_normal(reference.shape)
    for _ in range(steps):
        clean = speech(rng, batch_size)
        noise = 0.25 * rng.standard_normal(clean.shape)
        yield {"clean": preemphasis(clean).astype("float32"), "noisy": preemphasis(clean + noise).astype("float32"),
               "ref_clean": preemphasis(reference).astype("float32"),
               "ref_noisy": preemphasis(reference + reference_noise).astype("float32"),
               "z": rng.standard_normal((batch_size, CODE_STEPS, CODE)).astype("float32")}
