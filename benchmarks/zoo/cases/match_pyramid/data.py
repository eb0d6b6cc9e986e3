"""Queries with a relevant and an irrelevant document each, one behind the other, and the indices of dynamic pooling."""

import numpy as np

VOCAB = 61
QUERY_LENGTH = 12
DOC_LENGTH = 15


def dynamic_pooling_index(query_lengths, doc_lengths):
    """For every cell of the full matrix, the cell of the part that is filled that it is read from."""
    index = np.zeros((len(query_lengths), QUERY_LENGTH, DOC_LENGTH, 2), "int32")
    for row, (query, doc) in enumerate(zip(query_lengths, doc_lengths)):
        i = (np.arange(QUERY_LENGTH) * query / QUERY_LENGTH).astype("int32")
        j = (np.arange(DOC_LENGTH) * doc / DOC_LENGTH).astype("int32")
        index[row, :, :, 0], index[row, :, :, 1] = np.meshgrid(i, j, indexing="ij")
    return index


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    pairs = batch_size // 2
    for _ in range(steps):
        query_lengths = np.repeat(rng.integers(5, QUERY_LENGTH + 1, size=pairs), 2)
        doc_lengths = rng.integers(7, DOC_LENGTH + 1, size=batch_size)
        query = np.repeat(rng.integers(1, VOCAB, size=(pairs, QUERY_LENGTH)), 2, axis=0)
        doc = rng.integers(1, VOCAB, size=(batch_size, DOC_LENGTH))
        for row in range(0, batch_size, 2):  # relevant: a part of the query stands in it
            start = rng.integers(0, 4)
            doc[row, start:start + 4] = query[row, :4]
        query_mask = np.arange(QUERY_LENGTH)[None, :] < query_lengths[:, None]
        doc_mask = np.arange(DOC_LENGTH)[None, :] < doc_lengths[:, None]
        yield {
            "query": np.where(query_mask, query, 0).astype("int32"),
            "doc": np.where(doc_mask, doc, 0).astype("int32"),
            "query_mask": query_mask.astype("float32"),
            "doc_mask": doc_mask.astype("float32"),
            "dpool_index": dynamic_pooling_index(query_lengths, doc_lengths),
        }
