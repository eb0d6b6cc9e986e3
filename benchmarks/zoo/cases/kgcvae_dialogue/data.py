"""Little dialogues: some utterances of context by two speakers, the response with its dialogue act, a topic and two profiles, and
the draw of the latent variable. Word 0 is padding, 1 begins and 2 ends a response."""
import numpy as np

VOCAB, TOPICS, ACTS = 40, 5, 6
TURNS, WORDS, RESPONSE, LATENT = 4, 5, 7, 6


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    by_topic = rng.dirichlet(np.full(VOCAB - 3, 0.3), size=TOPICS)
    for _ in range(steps):
        contexts = np.zeros((batch_size, TURNS, WORDS), "int32")
        floors = np.zeros((batch_size, TURNS), "int32")
        context_lens = rng.integers(1, TURNS + 1, batch_size).astype("int32")
        topics = rng.integers(0, TOPICS, batch_size).astype("int32")
        acts = rng.integers(0, ACTS, batch_size).astype("int32")
        output = np.zeros((batch_size, RESPONSE), "int32")
        for row in range(batch_size):
            words = lambda n: 3 + rng.choice(VOCAB - 3, n, p=by_topic[topics[row]])
            for turn in range(context_lens[row]):
                n = int(rng.integers(1, WORDS + 1))
                contexts[row, turn, :n] = words(n)
                floors[row, turn] = rng.integers(0, 2)
            n = int(rng.integers(2, RESPONSE - 1))
            output[row, :n + 2] = np.concatenate([[1], words(n), [2]])
        yield {"contexts": contexts, "floors": floors, "context_lens": context_lens, "topics": topics, "acts": acts,
               "my_profile": rng.standard_normal((batch_size, 3)).astype("float32"),
               "ot_profile": rng.standard_normal((batch_size, 3)).astype("float32"),
               "output": output, "epsilon": rng.standard_normal((batch_size, LATENT)).astype("float32")}
