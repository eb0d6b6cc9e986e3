"""Stories as of bAbI: persons go places, the question asks where one is; 0 is the nil word."""

import numpy as np


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        stories = np.zeros((batch_size, 6, 5), int)
        queries = np.zeros((batch_size, 4), int)
        answers = np.zeros((batch_size, 30))
        for n in range(batch_size):
            count = rng.integers(3, 7)
            where = {}
            for m in range(count):
                person, place = rng.integers(1, 6), rng.integers(6, 16)
                verb = rng.integers(16, 20)
                stories[n, m, : rng.integers(3, 6)] = 20
                stories[n, m, :3] = person, verb, place
                where[person] = place
            person = rng.choice(list(where))
            queries[n, :3] = 21, 22, person
            answers[n, where[person]] = 1
        yield {
            "stories": stories.astype("int32"),
            "queries": queries.astype("int32"),
            "answers": answers.astype("float32"),
        }
