"""Sentences and their translations: the translation has every word's counterpart in another order, both end with <eos> and are padded
behind with zeros; ones stand where there are words."""
import numpy as np

SOURCE, TARGET, LONGEST_SOURCE, LONGEST_TARGET = 28, 24, 8, 9
EOS = 1


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        source = np.zeros((batch_size, LONGEST_SOURCE), "int32")
        target = np.zeros((batch_size, LONGEST_TARGET), "int32")
        source_mask = np.zeros((batch_size, LONGEST_SOURCE), "float32")
        target_mask = np.zeros((batch_size, LONGEST_TARGET), "float32")
        for i in range(batch_size):
            n = int(rng.integers(3, LONGEST_SOURCE))
            words = rng.integers(2, SOURCE, n)
            translation = 2 + (words * 7) % (TARGET - 2)
            translation = np.concatenate([translation[1::2], translation[0::2]])
            if rng.random() < 0.4:
                translation = np.append(translation, translation[0])
            source[i, :n], source[i, n] = words, EOS
            m = len(translation)
            target[i, :m], target[i, m] = translation, EOS
            source_mask[i, :n + 1] = 1
            target_mask[i, :m + 1] = 1
        yield {"source": source, "source_mask": source_mask, "target": target, "target_mask": target_mask}
