"""Articles with words outside the vocabulary, and summaries that repeat some of their words."""
import numpy as np

VOCAB, OOVS, ARTICLE, SUMMARY = 41, 4, 10, 6
PAD, UNK, START, STOP = 0, 1, 2, 3


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        article = np.zeros((batch_size, ARTICLE), np.int32)
        extended, lengths = np.zeros_like(article), rng.integers(4, ARTICLE + 1, batch_size)
        lengths[rng.integers(batch_size)] = ARTICLE
        decoder = np.zeros((batch_size, SUMMARY), np.int32)
        target, real = np.zeros_like(decoder), np.zeros((batch_size, SUMMARY), np.float32)
        for i, n in enumerate(lengths):
            words = rng.integers(4, VOCAB, n)
            names = rng.integers(0, OOVS)
            for k in range(names):                                   # a name may be there more than once
                words[rng.integers(0, n, rng.integers(1, 3))] = VOCAB + k
            words[rng.integers(n)] = words[0]
            names = {w: VOCAB + k for k, w in enumerate(dict.fromkeys(w for w in words if w >= VOCAB))}
            words = np.array([names.get(w, w) for w in words])
            extended[i, :n], article[i, :n] = words, np.where(words >= VOCAB, UNK, words)
            m = int(rng.integers(2, SUMMARY))
            start = rng.integers(0, max(1, n - m))
            summary = [w if rng.random() < .8 else rng.integers(4, VOCAB) for w in words[start:start + m]]
            both = summary + [STOP]
            target[i, :len(both)], real[i, :len(both)] = both, 1
            decoder[i, :len(both)] = [START] + [UNK if w >= VOCAB else w for w in summary]
        yield dict(enc_batch=article, enc_lens=lengths.astype(np.int32), enc_extend_vocab=extended,
                   enc_padding_mask=(np.arange(ARTICLE) < lengths[:, None]).astype(np.float32),
                   dec_batch=decoder, target_batch=target, dec_padding_mask=real)
