"""Stretches of DNA, one-hot in the order A, C, G, T, with two planted motifs, and read counts along them; a flag says which of them are
read from the other strand."""
import numpy as np

LENGTH, BINS, CROP, TARGETS = 56, 7, 1, 3
MOTIFS = ("TGACTCA", "CACGTG")


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    motifs = [np.array(["ACGT".index(c) for c in m]) for m in MOTIFS]
    for _ in range(steps):
        bases = rng.choice(4, (batch_size, LENGTH), p=[0.3, 0.22, 0.18, 0.3])
        mean = np.full((batch_size, BINS, TARGETS), 0.4)
        for i in range(batch_size):
            for k, motif in enumerate(motifs):
                at = int(rng.integers(0, LENGTH - len(motif)))
                bases[i, at:at + len(motif)] = motif
                bump = np.exp(-np.abs(np.arange(BINS) - at / 8.0))
                mean[i, :, k] += 3.0 * bump
                mean[i, :, 2] += 1.5 * bump
        counts = rng.poisson(mean)[:, CROP:BINS - CROP]
        yield {"seq": np.eye(4, dtype="float32")[bases], "counts": counts.astype("float32"),
               "flip": (rng.random(batch_size) < 0.5).astype("float32")}
