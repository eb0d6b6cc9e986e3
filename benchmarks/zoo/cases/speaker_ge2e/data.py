"""Log-mel-like frames: three utterances of each speaker, one speaker behind the other; a speaker is a spectral tilt and a rhythm."""

import numpy as np

UTTERANCES = 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    speakers = batch_size // UTTERANCES
    time, mel = np.arange(9)[:, None], np.arange(10)[None, :]
    for _ in range(steps):
        tilt = rng.standard_normal((speakers, 1, 10)).repeat(UTTERANCES, 0)
        rhythm = rng.uniform(0.3, 1.5, (speakers, 1, 1)).repeat(UTTERANCES, 0)
        phase = rng.uniform(0, 6, (batch_size, 1, 1))
        frames = tilt + np.sin(rhythm * time + 0.3 * mel + phase) + 0.4 * rng.standard_normal((batch_size, 9, 10))
        yield {"frames": frames.astype("float32")}
