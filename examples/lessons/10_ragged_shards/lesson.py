"""Ragged shards, and the bias of samplers that use examples twice."""

import numpy as np

RANKS = 4
SIZE = 10
random = np.random.RandomState(10)
X = random.randn(SIZE, 3).round(3)
Y = random.randn(SIZE).round(3)
X[0], Y[0] = [2.5, -1.5, 2.0], -3.0  # one example that is far off, and that the padding repeats
WEIGHTS = [0.5, -0.25, 1.0]
ARGUMENTS = {"x": X.tolist(), "y": Y.tolist(), "weights": WEIGHTS, "ranks": RANKS}


def findings(tf, torch):
    errors = X @ WEIGHTS - Y
    squared = errors**2
    true = float(squared.mean())
    gradient = 2 * (errors[:, None] * X).mean(axis=0)
    dealt = torch["dealt"]
    used = {name: [index for part in indices for index in part] for name, indices in dealt.items()}
    means = {name: float(squared[indices].mean()) for name, indices in used.items()}
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "size": SIZE,
        "squared": squared.tolist(),
        "true": true,
        "means": means,
        "used": used,
        "twice": sorted({index for index in used["padded"] if used["padded"].count(index) > 1}),
        "dropped": sorted(set(range(SIZE)) - set(used["dropping"])),
        "bias": means["padded"] / true - 1,
        "gradient": gradient.tolist(),
        "off": {
            name: apart(tf[name], gradient) / float(np.abs(gradient).max()) for name in ("mean", "examples", "drop")
        },
        "apart": max(apart(tf["mean"], torch["mean"]), apart(tf["examples"], torch["examples"])),
    }
    claims = {
        f"{SIZE} examples over {RANKS} ranks: DistributedSampler hands out {len(used['padded'])}, two of them twice": (
            len(used["padded"]) == 12 and numbers["twice"] == [0, 1]
        ),
        "the metric over them is not the metric of the data set": abs(numbers["bias"]) > 0.01,
        "with drop_last two examples are never seen": numbers["dropped"] == [8, 9],
        "ExactSampler and evaluate use each once, and find the true mean": (
            sorted(used["exact"]) == list(range(SIZE)) and abs(torch["evaluated"] - true) < 1e-14
        ),
        "over ragged shards the mean of the towers' means is not the gradient of the whole batch": (
            numbers["off"]["mean"] > 0.01 and numbers["off"]["drop"] > 0.01
        ),
        "weighted by examples it is": numbers["off"]["examples"] < 1e-14,
        "TensorFlow and torch agree in the bias and in its fix": numbers["apart"] < 1e-14,
    }
    return numbers, claims


def apart(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "10"])
