"""Dark and light bars, which stand for words, on a noisy page. Ground truth at half the resolution: which pixels are
text (1), background (0) or to be ignored (-1), the weight of each text pixel, so that every word counts the same, and
which of its eight neighbours belong to the same word. One picture of a batch has no word at all."""
import numpy as np

SIZE, MAP = 24, 12
NEIGHBOURS = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]


def page(rng, words):
    owner = np.zeros((MAP, MAP), int)
    for k in range(1, words + 1):
        h, w = rng.integers(2, 4), rng.integers(3, 7)
        y, x = rng.integers(0, MAP - h + 1), rng.integers(0, MAP - w + 1)
        owner[y:y + h, x:x + w] = k
    labels = (owner > 0).astype(int)
    blurred = (rng.random((MAP, MAP)) < 0.05) & (owner == 0)
    labels[blurred] = -1
    image = 150 + 20 * rng.standard_normal((SIZE, SIZE, 3)) + rng.normal(0, 15, 3)
    ink = np.kron(owner, np.ones((2, 2), int))
    for k in range(1, words + 1):
        image[ink == k] += rng.choice([-70, 60]) + rng.normal(0, 10, 3)
    sizes = {k: (owner == k).sum() for k in range(1, words + 1) if (owner == k).any()}
    weights = np.zeros((MAP, MAP))
    for k, size in sizes.items():
        weights[owner == k] = labels.clip(0).sum() / (len(sizes) * size)
    links = np.zeros((MAP, MAP, 8), int)
    padded = np.pad(owner, 1)
    for n, (dy, dx) in enumerate(NEIGHBOURS):
        other = padded[1 + dy:1 + dy + MAP, 1 + dx:1 + dx + MAP]
        links[..., n] = (owner > 0) & (other == owner)
    return np.clip(image, 0, 255), labels, weights, links


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        words = rng.integers(1, 4, batch_size)
        words[rng.integers(0, batch_size)] = 0
        images, labels, weights, links = (np.stack(part) for part in zip(*[page(rng, k) for k in words]))
        yield {"images": images.astype(np.float32), "pixel_labels": labels.astype(np.int32),
               "pixel_weights": weights.astype(np.float32), "link_labels": links.astype(np.int32)}
