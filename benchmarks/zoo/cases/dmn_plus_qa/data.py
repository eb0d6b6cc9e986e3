"""Little stories: sentences of a person and a place, a question after one of the persons, and where that one was last."""

import numpy as np

PERSONS, PLACES, WORDS = 5, 6, 24
FACTS, FACT_WORDS, QUESTION_WORDS, EMBEDDING = 6, 4, 4, 8
KEEP = 0.8


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        counts = rng.integers(3, FACTS + 1, size=batch_size)
        facts = np.zeros((batch_size, FACTS, FACT_WORDS), dtype="int32")
        question = np.zeros((batch_size, QUESTION_WORDS), dtype="int32")
        answers = np.zeros(batch_size, dtype="int32")
        lengths = rng.integers(2, QUESTION_WORDS + 1, size=batch_size)
        for b in range(batch_size):
            last = {}
            for f in range(counts[b]):
                person, place = rng.integers(0, PERSONS), rng.integers(0, PLACES)
                last[person] = place
                facts[b, f] = 1 + person, 13 + rng.integers(0, 5), 18 + rng.integers(0, 3), 6 + place
            person = list(last)[rng.integers(0, len(last))]
            words = [21, 22, 23][: lengths[b] - 1] + [1 + person]
            question[b, : lengths[b]] = words
            answers[b] = 6 + last[person]
        keep = (rng.random((batch_size, FACTS, EMBEDDING)) < KEEP) / KEEP
        yield {
            "facts": facts,
            "fact_counts": counts.astype("int32"),
            "question": question,
            "question_lengths": lengths.astype("int32"),
            "answers": answers,
            "fact_keep": keep.astype("float32"),
        }
