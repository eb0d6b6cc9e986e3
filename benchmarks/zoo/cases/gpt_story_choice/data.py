"""Stories with two endings, one of them right: start, story, delimiter, ending, classify, each token beside the id of its position,
which is a row of the same table. The mask has ones where there is text."""
import numpy as np

N_VOCAB, N_CTX = 30, 12
START, DELIMITER, CLASSIFY = N_VOCAB, N_VOCAB + 1, N_VOCAB + 2
N_SPECIAL = 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x = np.zeros((batch_size, 2, N_CTX, 2), "int32")
        m = np.zeros((batch_size, 2, N_CTX), "float32")
        y = rng.integers(0, 2, batch_size)
        for i in range(batch_size):
            words = rng.permutation(np.arange(1, N_VOCAB))
            story = words[:rng.integers(2, 6)]
            for j in range(2):
                n = int(rng.integers(1, 4))
                ending = rng.choice(story if j == y[i] else words[6:], n)
                text = np.concatenate([[START], story, [DELIMITER], ending, [CLASSIFY]])
                x[i, j, :len(text), 0] = text
                m[i, j, :len(text)] = 1
        x[..., 1] = np.arange(N_VOCAB + N_SPECIAL, N_VOCAB + N_SPECIAL + N_CTX)
        yield {"X": x, "M": m, "Y": y.astype("int32")}
