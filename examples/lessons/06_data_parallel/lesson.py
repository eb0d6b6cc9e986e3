"""DataParallel: one process with many replicas, what its gradients and statistics are, and why DDP replaced it."""

import numpy as np

COUNT = 2
random = np.random.RandomState(6)
X = random.randn(8, 3).round(3)
Y = random.randn(8).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": random.randn(3).round(3).tolist(),
    "count": COUNT,
    "momentum": 0.875,  # a float32 exactly, which TensorFlow rounds it to
}


def findings(tf, torch):
    parallel, ranks = torch["parallel"], torch["ranks"]
    pieces = (X @ np.array(ARGUMENTS["weights"])).reshape(COUNT, -1).mean(axis=1)
    expected = (1 - ARGUMENTS["momentum"]) * pieces
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "pieces": pieces.tolist(),
        "towers_apart": apart(tf["gradient"], parallel["gradient"]),
        "ddp_apart": apart(ranks[0]["gradient"], parallel["gradient"]),
        "summed": (COUNT * np.array(parallel["gradient"])).tolist(),
        "ring": 2 * (COUNT - 1) * parallel["weight_bytes"] // COUNT,
    }
    claims = {
        "the gradients of the replicas are summed, and that is the gradient of the whole loss": (
            apart(np.sum(parallel["by_replica"], axis=0), parallel["gradient"]) < 1e-14
        ),
        "it is the towers' gradient of the mean of their losses": numbers["towers_apart"] < 1e-14,
        "and DDP's mean of the ranks' gradients": numbers["ddp_apart"] < 1e-14,
        "of the replicas' statistics only the first one's survive, as with the first tower": (
            abs(parallel["moving_mean"] - expected[0]) < 1e-14 and abs(tf["moving_mean"] - expected[0]) < 1e-14
        ),
        "under DDP each rank keeps its own until the next forward pass": (
            abs(ranks[0]["moving_mean"] - expected[0]) < 1e-14 and abs(ranks[1]["moving_mean"] - expected[1]) < 1e-14
        ),
        "and then all have rank 0's": ranks[1]["at_next_forward"] == ranks[0]["moving_mean"],
        "replicas are made anew in every step, which sends all weights": (
            parallel["copied"] == [(COUNT - 1) * parallel["weight_bytes"]] * 2
        ),
        "torch.nn.DataParallel on a machine without a GPU runs one replica, and says nothing": torch["calls"] == 1,
    }
    return numbers, claims


def apart(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "6"])
