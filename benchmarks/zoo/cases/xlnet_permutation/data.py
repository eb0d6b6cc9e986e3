"""Two segments of tokens, padded in front, with some tokens to be predicted in a permuted order: a mask of who must not look at whom,
which positions are predicted, and a weight per prediction (short texts have fewer of them)."""
import numpy as np

VOCAB, LENGTH, PREDICT = 40, 10, 3
SEP, CLS = 1, 2


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        inp = np.zeros((batch_size, LENGTH), "int32")
        seg = np.zeros((batch_size, LENGTH), "int32")
        pad = np.zeros((batch_size, LENGTH), "float32")
        perm = np.zeros((batch_size, LENGTH, LENGTH), "float32")
        mapping = np.zeros((batch_size, PREDICT, LENGTH), "float32")
        target = np.zeros((batch_size, PREDICT), "int32")
        weight = np.zeros((batch_size, PREDICT), "float32")
        for i in range(batch_size):
            n = int(rng.integers(6, LENGTH + 1))
            first = int(rng.integers(2, n - 3))
            words = 3 + (int(rng.integers(0, 37)) + np.arange(n) * int(rng.integers(1, 4))) % 37
            words[first] = SEP
            words[-1] = CLS
            inp[i, LENGTH - n:] = words
            seg[i, LENGTH - n + first + 1:] = 1
            pad[i, :LENGTH - n] = 1
            places = LENGTH - n + np.delete(np.arange(n - 1), first)
            chosen = rng.permutation(places)[:PREDICT if n > 7 else PREDICT - 1]
            order = np.full(LENGTH, -1)
            order[chosen] = np.arange(len(chosen))
            hidden = order >= 0
            perm[i] = hidden[None, :] & (order[:, None] <= order[None, :])
            mapping[i, np.arange(len(chosen)), chosen] = 1
            target[i, :len(chosen)] = inp[i, chosen]
            weight[i, :len(chosen)] = 1
        yield {"inp_k": inp, "seg_id": seg, "input_mask": pad, "perm_mask": perm, "target_mapping": mapping, "target": target,
               "tgt_mask": weight}
