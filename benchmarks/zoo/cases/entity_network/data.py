"""Short stories about who went where, as word ids; the question asks for the place where somebody was last."""
import numpy as np

VOCAB, SENTENCES, WORDS = 40, 6, 6
PEOPLE, VERBS, FILLERS = np.arange(1, 9), np.arange(9, 19), np.arange(19, 30)
PLACES = np.arange(35, 40)
WHERE, IS = 30, 31


def sentence(rng, person, place):
    words = [person, rng.choice(VERBS)]
    words += rng.choice(FILLERS, rng.integers(1, 3)).tolist()
    return words + [place]


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        story = np.zeros((batch_size, SENTENCES, WORDS), np.int32)
        query = np.zeros((batch_size, 1, 4), np.int32)
        answer = np.zeros(batch_size, np.int32)
        for i in range(batch_size):
            where = {}
            for j in range(rng.integers(2, SENTENCES + 1)):
                person, place = rng.choice(PEOPLE), rng.choice(PLACES)
                words = sentence(rng, person, place)
                story[i, j, :len(words)] = words
                where[person] = place
            person = rng.choice(list(where))
            question = [WHERE, IS, person] if rng.random() < 0.7 else [WHERE, person]
            query[i, 0, :len(question)] = question
            answer[i] = where[person]
        weights = rng.choice([0.0, 0.5, 1.0, 2.0], batch_size, p=[0.15, 0.25, 0.4, 0.2])
        weights[:: batch_size // 4] = 1.0  # no shard goes without
        yield {"story": story, "query": query, "answer": answer, "weights": weights.astype(np.float32)}
