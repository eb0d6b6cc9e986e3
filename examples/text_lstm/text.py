"""Real English: what Python's own help() says of the language, which every Python brings along."""

from collections.abc import Iterator

import numpy as np

LENGTH = 10
SYMBOLS = 96  # the 95 printable characters of ASCII in their order, and the end of a line
END = SYMBOLS - 1


def batches(steps: int, batch_size: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields `steps` batches of windows that begin anywhere within a line.

    `characters` and `following` are int32 ``[batch, 10]`` in 0 to 95: a character, and the one after it. `weights`, float32
    ``[batch, 10]``, are 1 up to the end of the line and 0 beyond: the next line is another matter.
    """
    symbols = encode(load())
    within = np.flatnonzero(symbols[:-LENGTH] != END)
    random = np.random.default_rng(seed)
    for _ in range(steps):
        begins = random.choice(within, size=batch_size)
        windows = symbols[begins[:, None] + np.arange(LENGTH + 1)]
        characters, following = windows[:, :-1], windows[:, 1:]
        weights = np.cumprod(characters != END, axis=1).astype(np.float32)
        yield {"characters": characters, "following": following, "weights": weights}


def load() -> str:
    """Returns the help pages on the language, more than 400,000 characters, in the order of their titles."""
    from pydoc_data.topics import topics

    return "\n".join(topics[title] for title in sorted(topics))


def encode(text: str) -> np.ndarray:
    """Returns the symbols of a text, int32; what is not ASCII becomes a question mark."""
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32)
    return np.where(codes < 32, END, codes - 32).astype(np.int32)
