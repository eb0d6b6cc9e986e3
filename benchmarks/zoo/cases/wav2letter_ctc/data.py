"""Short utterances as spectral frames, padded with zeros behind, and the letters that are said in them."""
import numpy as np

FRAMES, BINS, LETTERS, LONGEST = 37, 12, 9, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    sounds = rng.normal(0, 1, (LETTERS, BINS))
    for _ in range(steps):
        audio = np.zeros((batch_size, FRAMES, BINS))
        labels = np.zeros((batch_size, LONGEST), "int32")
        frames = rng.integers(26, FRAMES + 1, batch_size)
        letters = rng.integers(2, LONGEST + 1, batch_size)
        for i, (t, n) in enumerate(zip(frames, letters)):
            labels[i, :n] = rng.integers(0, LETTERS, n)
            said = labels[i, :n][np.arange(t) * n // t]
            audio[i, :t] = sounds[said] + 0.4 * rng.standard_normal((t, BINS))
        yield {"inputs": audio.astype("float32"), "sequence_lengths": frames.astype("int32"), "labels": labels,
               "label_lengths": letters.astype("int32")}
