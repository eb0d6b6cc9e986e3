"""Word ids of a stream of sentences, cut into rows; the next word is the target. Words behind the end of the data have weight 0. The
states that the stretch before has left are fed, cell and projected output of every layer one behind the other."""
import numpy as np

VOCABULARY, NUM_STEPS = 50, 7
LAYERS, STATE, PROJECTED = 2, 20, 12


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    follows = rng.dirichlet(np.full(VOCABULARY, 0.08), VOCABULARY)
    for _ in range(steps):
        words = np.empty((batch_size, NUM_STEPS + 1), "int32")
        words[:, 0] = rng.integers(0, VOCABULARY, batch_size)
        for t in range(NUM_STEPS):
            words[:, t + 1] = [rng.choice(VOCABULARY, p=follows[word]) for word in words[:, t]]
        end = np.where(rng.random(batch_size) < 0.5, NUM_STEPS, rng.integers(3, NUM_STEPS, batch_size))
        weights = (np.arange(NUM_STEPS) < end[:, None]).astype("float32")
        state = 0.5 * rng.standard_normal((batch_size, LAYERS * (STATE + PROJECTED)))
        yield {"x": words[:, :-1].copy(), "y": words[:, 1:].copy(), "w": weights, "state": state.astype("float32")}
