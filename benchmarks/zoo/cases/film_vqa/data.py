"""Pictures of a coloured square on noise, and a question about one of its attributes as a padded sequence of words."""

import numpy as np

PADDING = 0


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    palette = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype="float64")
    for _ in range(steps):
        colour = rng.integers(0, 4, size=batch_size)
        place = rng.integers(0, 4, size=batch_size)
        images = 0.3 * rng.random((batch_size, 12, 14, 3))
        for i in range(batch_size):
            top, left = 1 + 6 * (place[i] // 2) + rng.integers(0, 2), 1 + 7 * (place[i] % 2) + rng.integers(0, 2)
            images[i, top:top + 4, left:left + 4] = 0.2 + 0.7 * palette[colour[i]]
        asks_colour = rng.random(batch_size) < 0.5
        lengths = rng.integers(3, 8, size=batch_size)
        questions = rng.integers(3, 20, size=(batch_size, 7))
        questions[np.arange(batch_size), rng.integers(0, 3, size=batch_size)] = np.where(asks_colour, 1, 2)
        questions = np.where(np.arange(7)[None, :] < lengths[:, None], questions, PADDING)
        answers = np.where(asks_colour, colour, 4 + place)
        yield {
            "images": (images - 0.4).astype("float32"),
            "questions": questions.astype("int32"),
            "lengths": lengths.astype("int32"),
            "answers": answers.astype("int32"),
        }
