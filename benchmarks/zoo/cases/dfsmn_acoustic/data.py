"""Utterances of different lengths: frames of filter-bank energies that follow a walk through ten states."""
import numpy as np

FRAMES, BANDS, STATES = 18, 12, 10


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((STATES, BANDS))
    for _ in range(steps):
        lengths = rng.integers(7, FRAMES + 1, batch_size)
        lengths[rng.integers(batch_size)] = FRAMES
        moves = (rng.random((batch_size, FRAMES)) < 0.45).cumsum(1)
        states = (rng.integers(0, STATES, (batch_size, 1)) + 3 * moves) % STATES
        frames = centres[states]
        frames = 0.6 * frames + 0.3 * np.roll(frames, 1, 1) + 0.2 * np.roll(frames, -1, 1)
        frames += 0.5 * rng.standard_normal(frames.shape) + 0.4 * rng.standard_normal((batch_size, 1, 1))
        valid = np.arange(FRAMES)[None] < lengths[:, None]
        yield {"frames": (frames * valid[..., None]).astype(np.float32), "lengths": lengths.astype(np.int32),
               "senones": np.where(valid, states, 0).astype(np.int32)}
