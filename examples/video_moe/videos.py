"""Made-up videos with several labels each: what the YouTube-8M features look like, drawn from a seed.

Every class has a prototype, a vector of features. A video shows one to three classes, the first ones more often; each frame
shows one of them, and adds noise of its own. All is standard normal before it is cut to -2 to 2, the range of YouTube-8M's
dequantised features.
"""

from collections.abc import Iterator

import numpy as np

CLASSES = 10
FRAMES = 5
FEATURES = 24
NOISE = 0.5
WORLD = 20170101  # the prototypes belong to the data set, not to the order of a run


def batches(steps: int, batch_size: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields `steps` batches: `frames` float32 ``[batch, 5, 24]`` in -2 to 2, `labels` float32 ``[batch, 10]``, 0 or 1."""
    prototypes = np.random.default_rng(WORLD).standard_normal((CLASSES, FEATURES))
    random = np.random.default_rng(seed)
    for _ in range(steps):
        videos = [video(prototypes, random) for _ in range(batch_size)]
        yield {
            "frames": np.stack([frames for frames, _ in videos]).astype(np.float32),
            "labels": np.stack([labels for _, labels in videos]).astype(np.float32),
        }


def video(prototypes: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws one video: features ``[5, 24]`` and labels ``[10]``."""
    frequency = 1.0 / np.arange(1, CLASSES + 1)
    count = random.integers(1, 4)
    shown = random.choice(CLASSES, size=count, replace=False, p=frequency / frequency.sum())
    labels = np.zeros(CLASSES)
    labels[shown] = 1.0
    frames = prototypes[random.choice(shown, FRAMES)] + NOISE * random.standard_normal((FRAMES, FEATURES))
    return np.clip(frames, -2.0, 2.0), labels
