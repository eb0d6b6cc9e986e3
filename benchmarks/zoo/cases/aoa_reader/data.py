"""Cloze questions: the answer is a word of the document, and may be there more than once. 0 is padding."""

import numpy as np

VOCAB, DOCUMENT, QUERY = 26, 11, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        document = rng.integers(1, VOCAB, size=(batch_size, DOCUMENT))
        document_length = rng.integers(5, DOCUMENT + 1, size=batch_size)
        query_length = rng.integers(2, QUERY + 1, size=batch_size)
        # a word comes back two places later in every document
        document[:, 3] = document[:, 1]
        place = rng.integers(0, document_length)
        answer = document[np.arange(batch_size), place]
        query = rng.integers(1, VOCAB, size=(batch_size, QUERY))
        query[:, 0] = document[np.arange(batch_size), np.maximum(place - 1, 0)]
        document = np.where(np.arange(DOCUMENT)[None, :] < document_length[:, None], document, 0)
        query = np.where(np.arange(QUERY)[None, :] < query_length[:, None], query, 0)
        yield {
            "document": document.astype("int32"),
            "document_length": document_length.astype("int32"),
            "query": query.astype("int32"),
            "query_length": query_length.astype("int32"),
            "answer": answer.astype("int32"),
            "weight": rng.uniform(0.5, 1.5, size=batch_size).astype("float32"),
        }
