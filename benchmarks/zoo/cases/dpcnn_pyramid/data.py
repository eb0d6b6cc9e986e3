"""Documents cut to one length; every topic prefers some words and one pair of words in a row. Labels are one-hot."""
import numpy as np

VOCAB, LENGTH, TOPICS = 67, 18, 5


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = rng.dirichlet(np.full(VOCAB - 1, 0.2), size=TOPICS)
    pairs = rng.integers(1, VOCAB, (TOPICS, 2))
    for _ in range(steps):
        topics = rng.integers(TOPICS, size=batch_size)
        words = np.zeros((batch_size, LENGTH), "int32")
        for row, topic in enumerate(topics):
            words[row] = rng.choice(np.arange(1, VOCAB), LENGTH, p=0.8 * taste[topic] + 0.2 / (VOCAB - 1))
            at = int(rng.integers(LENGTH - 1))
            words[row, at:at + 2] = pairs[topic]
        yield {"input_x": words, "input_y": np.eye(TOPICS, dtype="float32")[topics]}
