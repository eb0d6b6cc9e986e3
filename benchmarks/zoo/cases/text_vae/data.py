"""Sentences of a small grammar, padded; the decoder's words are partly dropped to UNK, and noise and global step are fed."""
import numpy as np

PAD, GO, EOS, UNK = 0, 1, 2, 3
VOCAB, LENGTH, LATENT = 23, 9, 5


def sentence(rng):
    topic = rng.choice(3, p=[0.6, 0.3, 0.1])
    nouns = 4 + 3 * topic + np.arange(3)
    verbs = 13 + 2 * topic + np.arange(2)
    words = [rng.choice(nouns)]
    while len(words) < LENGTH - 2 and rng.random() < 0.75:
        words += [rng.choice(verbs), rng.choice(nouns)] if rng.random() < 0.7 else [19 + rng.integers(4)]
    return words[:LENGTH - 1]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for k in range(steps):
        out = {n: np.full((batch_size, LENGTH), PAD, "int32") for n in ("enc_inputs", "dec_inputs", "targets")}
        lengths = np.zeros(batch_size, "int32")
        for i in range(batch_size):
            words = sentence(rng)
            n = len(words) + 1
            lengths[i] = n
            out["enc_inputs"][i, :n] = words + [EOS]
            out["targets"][i, :n] = words + [EOS]
            out["dec_inputs"][i, :n] = [GO] + [UNK if rng.random() < 0.3 else w for w in words]
        out["lengths"] = lengths
        out["noise"] = rng.standard_normal((batch_size, LATENT)).astype("float32")
        out["train_step"] = np.full(batch_size, 24.0 + 4 * k, "float32")
        yield out
