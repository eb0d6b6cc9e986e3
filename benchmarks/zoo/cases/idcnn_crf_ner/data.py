"""Sentences of characters with their place in a word (0 single, 1 begin, 2 inside, 3 end) and tags of entities (0 outside, 1 and 2 begin
and inside of a name, 3 and 4 of a place). Character 0 pads; the mask says where a sentence is."""
import numpy as np

CHARS, LONGEST = 45, 12


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        chars, segs, tags = (np.zeros((batch_size, LONGEST), "int32") for _ in range(3))
        mask = np.zeros((batch_size, LONGEST), "float32")
        for row in range(batch_size):
            n = int(rng.integers(4, LONGEST + 1))
            mask[row, :n] = 1
            t = 0
            while t < n:
                size = min(int(rng.integers(1, 4)), n - t)
                kind = int(rng.choice([0, 0, 1, 2]))
                chars[row, t:t + size] = 1 + kind * 12 + rng.integers(0, 20, size)
                if size > 1:
                    segs[row, t:t + size] = [1] + [2] * (size - 2) + [3]
                if kind:
                    tags[row, t:t + size] = [2 * kind - 1] + [2 * kind] * (size - 1)
                t += size
        yield {"chars": chars, "segs": segs, "mask": mask, "targets": tags}
