"""Toy reading comprehension: the question repeats the words around a span of the context. Zero pads words and characters."""
import numpy as np

WORDS, CHARS = 45, 18
CONTEXT, QUESTION, LETTERS = 8, 5, 4


def spelling():
    rng = np.random.default_rng(1234)
    table = rng.integers(1, CHARS, size=(WORDS, LETTERS))
    for word in range(WORDS):
        table[word, rng.integers(2, LETTERS + 1):] = 0
    table[0] = 0
    return table


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    letters = spelling()
    for _ in range(steps):
        context = np.zeros((batch_size, CONTEXT), "int32")
        question = np.zeros((batch_size, QUESTION), "int32")
        start = np.zeros((batch_size, CONTEXT), "float32")
        end = np.zeros((batch_size, CONTEXT), "float32")
        for row in range(batch_size):
            n = int(rng.integers(5, CONTEXT + 1))
            context[row, :n] = rng.integers(1, WORDS, n)
            first = int(rng.integers(1, n - 2))
            last = int(min(n - 1, first + rng.integers(0, 3)))
            cue = np.concatenate([context[row, max(0, first - 2):first], context[row, last + 1:last + 3], rng.integers(1, WORDS, 1)])
            m = int(min(len(cue) + rng.integers(0, 2), QUESTION))
            question[row, :m] = np.resize(cue, m)
            start[row, first] = 1
            end[row, last] = 1
        yield {"context": context, "question": question, "context_chars": letters[context].astype("int32"),
               "question_chars": letters[question].astype("int32"), "y1": start, "y2": end}
