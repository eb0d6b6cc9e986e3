"""Pictures as five detected regions with their boxes, and captions that name some of what is seen, of 3 to 9 words."""
import numpy as np

REGIONS, FEATURES, WORDS, LONGEST = 5, 12, 40, 9
_look = np.random.default_rng(99)
LOOKS = _look.normal(0, 1, (12, FEATURES))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        regions = np.empty((batch_size, REGIONS, FEATURES))
        boxes = np.empty((batch_size, REGIONS, 4))
        words = np.zeros((batch_size, LONGEST), "int32")
        lengths = rng.integers(3, LONGEST + 1, batch_size).astype("int32")
        lengths[rng.integers(batch_size)] = LONGEST
        for i in range(batch_size):
            things = rng.choice(12, REGIONS)
            regions[i] = np.maximum(LOOKS[things] + rng.normal(0, 0.4, (REGIONS, FEATURES)), 0)
            corner, size = rng.uniform(0, 0.6, (REGIONS, 2)), rng.uniform(0.1, 0.4, (REGIONS, 2))
            boxes[i] = np.concatenate([corner, corner + size], 1)
            for t in range(lengths[i]):
                words[i, t] = 1 + 3 * rng.choice(things) + rng.integers(2) if rng.random() < 0.6 else 37 + rng.integers(3)
        yield {"regions": regions.astype("float32"), "boxes": boxes.astype("float32"), "words": words, "lengths": lengths}
