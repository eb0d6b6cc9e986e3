"""Click sessions as graphs: the distinct items of a session are the nodes (0 stands for padding), the clicks index into them, and
consecutive clicks are edges, normalised by in- and out-degree."""
import numpy as np

ITEMS, LONGEST = 41, 9


def graph(clicks):
    nodes = np.unique(clicks)
    a = np.zeros((LONGEST, LONGEST))
    for first, second in zip(clicks[:-1], clicks[1:]):
        if second == 0:
            break
        a[np.searchsorted(nodes, first), np.searchsorted(nodes, second)] = 1
    into, out = a.sum(0), a.sum(1)
    a_in = (a / np.where(into == 0, 1, into)).T
    a_out = a / np.where(out == 0, 1, out)[:, None]
    items = np.zeros(LONGEST, "int32")
    items[:len(nodes)] = nodes
    return np.searchsorted(nodes, clicks), items, a_in, a_out


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    taste = rng.dirichlet(np.full(ITEMS - 1, 0.15), size=5)
    for _ in range(steps):
        rows = []
        for _ in range(batch_size):
            p = taste[rng.integers(5)] * 0.9 + 0.1 / (ITEMS - 1)
            n = int(rng.integers(2, LONGEST + 1))
            clicks = rng.choice(np.arange(1, ITEMS), n + 1, p=p)
            padded = np.zeros(LONGEST, "int64")
            padded[:n] = clicks[:n]
            alias, items, a_in, a_out = graph(padded)
            rows.append((items, a_in, a_out, alias, np.arange(LONGEST) < n, clicks[n]))
        items, a_in, a_out, alias, mask, target = (np.stack(column) for column in zip(*rows))
        yield {"item": items, "adj_in": a_in.astype("float32"), "adj_out": a_out.astype("float32"), "alias": alias.astype("int32"),
               "mask": mask.astype("float32"), "tar": target.astype("int32")}
