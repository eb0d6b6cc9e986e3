"""Tiles and bars in three colours on a grainy ground, 24 x 24; targets on a grid of 12 x 12: corners as gaussian bumps, their places
as flat indices, and what the grid rounds off."""
import numpy as np

SIZE, STRIDE, CLASSES, MAX_TAGS = 24, 2, 3, 4
GRID = SIZE // STRIDE
COLOURS = np.array([[0.95, 0.25, 0.2], [0.2, 0.85, 0.35], [0.3, 0.35, 0.95]])


def bump(heat, y, x, sigma):
    gy, gx = np.mgrid[:GRID, :GRID]
    np.maximum(heat, np.exp(-((gy - y) ** 2 + (gx - x) ** 2) / (2 * sigma ** 2)), out=heat)


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = rng.uniform(0.1, 0.35, (batch_size, 1, 1, 3)) + rng.normal(0, 0.04, (batch_size, SIZE, SIZE, 3))
        heats = np.zeros((2, batch_size, CLASSES, GRID, GRID))
        inds = np.zeros((2, batch_size, MAX_TAGS), np.int32)
        offs = np.zeros((2, batch_size, MAX_TAGS, 2))
        masks = np.zeros((batch_size, MAX_TAGS))
        for b in range(batch_size):
            for t in range(rng.integers(1, MAX_TAGS + 1)):
                cls = rng.integers(CLASSES)
                h, w = rng.uniform(5, 13, 2) if cls else (rng.uniform(4, 6), rng.uniform(10, 16))
                y0, x0 = rng.uniform(0, SIZE - 1 - h), rng.uniform(0, SIZE - 1 - w)
                corners = [(y0, x0), (y0 + h, x0 + w)]
                images[b, int(y0):int(y0 + h) + 1, int(x0):int(x0 + w) + 1] += COLOURS[cls] * rng.uniform(0.4, 0.7)
                masks[b, t] = 1
                for k, (y, x) in enumerate(corners):
                    y, x = y / STRIDE, x / STRIDE
                    bump(heats[k, b, cls], int(y), int(x), rng.uniform(0.5, 1.0))
                    inds[k, b, t] = int(y) * GRID + int(x)
                    offs[k, b, t] = x - int(x), y - int(y)
        heats = heats.transpose(0, 1, 3, 4, 2).astype(np.float32)
        yield {"images": images.astype(np.float32), "tl_heat": heats[0], "br_heat": heats[1], "tl_inds": inds[0], "br_inds": inds[1],
               "tl_offs": offs[0].astype(np.float32), "br_offs": offs[1].astype(np.float32), "tag_masks": masks.astype(np.float32)}
