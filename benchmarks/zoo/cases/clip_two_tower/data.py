"""Pictures of a coloured bar with a caption of words for its place, direction and colour; token 39 ends a caption."""

import numpy as np

END = 39


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = 0.3 * rng.standard_normal((batch_size, 12, 12, 3))
        tokens = np.zeros((batch_size, 8), dtype=np.int64)
        for i in range(batch_size):
            place, across, colour = rng.integers(0, 10), rng.integers(0, 2), rng.integers(0, 3)
            if across:
                images[i, place:place + 2, :, colour] += 2.0
            else:
                images[i, :, place:place + 2, colour] += 2.0
            filler = rng.integers(20, 38, size=rng.integers(0, 4))
            words = [1, *filler, 2 + place, 13 + across, 16 + colour]
            tokens[i, :len(words)] = words
            tokens[i, len(words)] = END
        yield {"images": images.astype("float32"), "tokens": tokens.astype("int32")}
