"""Pairs of runs of tokens with words masked out: [CLS] a .. [SEP] b .. [SEP] pad."""
import numpy as np

VOCAB, LENGTH, PREDICTIONS = 61, 12, 4
CLS, SEP, MASK = 1, 2, 3
WORDS = VOCAB - 4


def run(rng, start, n):
    """A run in which every word follows from the one before, now and then with a slip."""
    words = [start]
    while len(words) < n:
        words.append((words[-1] * 2 + 5 + (rng.integers(0, WORDS) if rng.random() < .1 else 0)) % WORDS)
    return words


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        ids = np.zeros((batch_size, LENGTH), np.int32)
        segments, mask = np.zeros_like(ids), np.zeros((batch_size, LENGTH), np.float32)
        positions = np.zeros((batch_size, PREDICTIONS), np.int32)
        labels, weights = np.zeros_like(positions), np.zeros((batch_size, PREDICTIONS), np.float32)
        follows = (rng.random(batch_size) < .3).astype(np.int32)
        for i in range(batch_size):
            n, m = rng.integers(2, 6), rng.integers(2, 5)
            both = run(rng, rng.integers(0, WORDS), n + m)
            a, b = both[:n], both[n:] if not follows[i] else run(rng, rng.integers(0, WORDS), m)
            row = [CLS] + [w + 4 for w in a] + [SEP] + [w + 4 for w in b] + [SEP]
            ids[i, :len(row)], mask[i, :len(row)], segments[i, n + 2:len(row)] = row, 1, 1
            free = [p for p in range(1, len(row)) if row[p] not in (CLS, SEP)]
            chosen = np.sort(rng.choice(free, min(len(free), int(rng.integers(1, PREDICTIONS + 1))), replace=False))
            for k, p in enumerate(chosen):
                positions[i, k], labels[i, k], weights[i, k] = p, ids[i, p], 1
                u = rng.random()
                ids[i, p] = MASK if u < .8 else ids[i, p] if u < .9 else rng.integers(4, VOCAB)
        yield dict(input_ids=ids, input_mask=mask, segment_ids=segments, masked_lm_positions=positions,
                   masked_lm_ids=labels, masked_lm_weights=weights, next_sentence_labels=follows)
