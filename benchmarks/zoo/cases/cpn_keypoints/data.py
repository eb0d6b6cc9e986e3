"""Stick figures with six joints; heatmaps of three widths as labels, and for each joint whether it is absent (0), occluded (1) or
visible (2)."""
import numpy as np

HEIGHT, WIDTH = 32, 24
OUT_HEIGHT, OUT_WIDTH = 16, 12
JOINTS = 6
SIGMAS = (2.2, 1.6, 1.0)


def heatmap(x, y, sigma):
    rows, columns = np.mgrid[0:OUT_HEIGHT, 0:OUT_WIDTH]
    return np.exp(-((rows - y / 2) ** 2 + (columns - x / 2) ** 2) / (2 * sigma ** 2))


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    pose = np.array([[12, 4], [6, 10], [18, 10], [12, 17], [7, 27], [17, 27]], float)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    for _ in range(steps):
        images = rng.normal(0, 0.3, (batch_size, HEIGHT, WIDTH, 3))
        labels = np.zeros((len(SIGMAS), batch_size, OUT_HEIGHT, OUT_WIDTH, JOINTS))
        valids = rng.choice([0, 1, 2], (batch_size, JOINTS), p=[0.15, 0.25, 0.6])
        for i in range(batch_size):
            places = pose + rng.normal(0, 1.5, pose.shape) + rng.normal(0, 1, 2)
            for j, (x, y) in enumerate(places):
                if valids[i, j] == 0:
                    continue
                if valids[i, j] == 2:
                    blob = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 5)
                    images[i] += blob[..., None] * (1 + np.array([j % 2, (j // 2) % 2, j // 4]))
                for k, sigma in enumerate(SIGMAS):
                    labels[k, i, :, :, j] = heatmap(x, y, sigma)
        yield {"image": images.astype("float32"), "label11": labels[0].astype("float32"), "label9": labels[1].astype("float32"),
               "label7": labels[2].astype("float32"), "valids": valids.astype("float32")}
