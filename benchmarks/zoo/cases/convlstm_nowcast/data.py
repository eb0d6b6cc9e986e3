import numpy as np

SEEN, AHEAD, HEIGHT, WIDTH = 5, 3, 12, 10


def batches(steps, batch_size, seed):
    """Radar echoes in dBZ: cells of rain that drift and grow, much of it dry, pixels that the radar does not cover."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        frames = np.zeros([batch_size, SEEN + AHEAD, HEIGHT, WIDTH])
        valid = np.ones([batch_size, AHEAD, HEIGHT, WIDTH])
        for example in range(batch_size):
            dbz = np.full([SEEN + AHEAD, HEIGHT, WIDTH], -18.0) + random.normal(0, 4, [SEEN + AHEAD, HEIGHT, WIDTH])
            drift = random.normal(0, 0.7, 2)
            for _ in range(random.integers(0, 4)):
                centre, peak, size = random.uniform(0, [HEIGHT, WIDTH]), random.gamma(6.0, 8.0), random.uniform(1.0, 2.5)
                growth = random.normal(0, 2)
                for t in range(SEEN + AHEAD):
                    where = centre + t * drift
                    echo = (peak + growth * t + 15) * np.exp(-((rows - where[0]) ** 2 + (columns - where[1]) ** 2) / (2 * size ** 2)) - 15
                    dbz[t] = np.maximum(dbz[t], echo)
            frames[example] = dbz
            radius = random.uniform(5, 9)
            covered = (rows - HEIGHT / 2) ** 2 + (columns - WIDTH / 2) ** 2 < radius ** 2
            valid[example] *= covered
            if random.random() < 0.3:
                valid[example, random.integers(0, AHEAD)] = 0  # a missing scan
        yield {"frames": frames[:, :SEEN].astype(np.float32), "future": frames[:, SEEN:].astype(np.float32), "valid": valid.astype(np.float32)}
