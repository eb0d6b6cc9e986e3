import numpy as np

NODES, WORDS, CLASSES = 13, 17, 5


def batches(steps, batch_size, seed):
    """Small directed citation graphs: a node's words and its neighbours tell its class; few nodes are labelled."""
    random = np.random.default_rng(seed)
    topics = random.dirichlet([0.3] * WORDS, CLASSES)
    prior = np.array([.35, .25, .2, .12, .08])
    for _ in range(steps):
        batch = {"features": [], "adjacency": [], "labels": [], "mask": []}
        for _ in range(batch_size):
            labels = random.choice(CLASSES, NODES, p=prior)
            real = random.integers(8, NODES + 1)  # the rest are nodes without words and links
            words = np.array([random.multinomial(random.integers(3, 12), topics[c]) for c in labels]).astype(float)
            words *= (np.arange(NODES) < real)[:, None]
            chance = np.where(labels[:, None] == labels[None, :], 0.45, 0.08)
            links = (random.random([NODES, NODES]) < chance).astype(float)
            np.fill_diagonal(links, 0)
            links[real:], links[:, real:] = 0, 0
            mask = (random.random(NODES) < 0.4) & (np.arange(NODES) < real)
            mask[random.integers(0, real)] = True
            batch["features"].append(words)
            batch["adjacency"].append(links)
            batch["labels"].append(labels)
            batch["mask"].append(mask)
        yield {"features": np.array(batch["features"], np.float32), "adjacency": np.array(batch["adjacency"], np.float32),
               "labels": np.array(batch["labels"], np.int32), "mask": np.array(batch["mask"], np.float32)}
