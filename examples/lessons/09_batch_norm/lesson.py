"""Batch norm over towers: per tower, whose statistics survive, and synchronised."""

import numpy as np

COUNT = 2
random = np.random.RandomState(9)
X = random.randn(8, 3).round(3)
X[:4] -= 1  # a batch that is sorted: the two towers see different things
X[4:] += 1
Y = random.randn(8).round(3)
MOMENTUM = 0.875  # a float32 exactly, which TensorFlow rounds it to
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": [0.5, 0.75, 1.0],
    "count": COUNT,
    "momentum": MOMENTUM,
    "epsilon": 0.001,
}


def findings(tf, torch):
    z = X @ np.array(ARGUMENTS["weights"])
    pieces = z.reshape(COUNT, -1)
    whole = torch["whole"]
    same = {
        "first": apart(tf["first"]["mean"], torch["per rank"][0]["mean"]),
        "last": apart(tf["last"]["mean"], torch["per rank"][1]["mean"]),
        "variance": apart(tf["first"]["variance"], torch["per rank"][0]["variance"]),
        "gradient": apart(tf["first"]["gradient"], torch["per rank"][0]["gradient"]),
        "synchronised": max(apart(tf["synchronised"][key], torch["synchronised"][0][key]) for key in whole),
    }
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "z": z.tolist(),
        "means": pieces.mean(axis=1).tolist(),
        "deviations": pieces.std(axis=1).tolist(),
        "whole_mean": float(z.mean()),
        "whole_deviation": float(z.std()),
        "same": same,
        "sync_apart": max(apart(torch["synchronised"][0][key], whole[key]) for key in whole),
        "per_tower_off": apart(tf["first"]["gradient"], whole["gradient"]) / max(map(abs, whole["gradient"])),
    }
    claims = {
        "normalised per tower, the towers' mean gradient is not that of the whole batch": numbers["per_tower_off"]
        > 0.1,
        "TensorFlow's towers and DDP's ranks have the same gradient all the same": same["gradient"] < 1e-14,
        "updates of the first tower leave what rank 0 has, mean and variance": max(same["first"], same["variance"])
        < 1e-14,
        "updates of the last tower leave what the last rank has": same["last"] < 1e-14,
        "updates of all towers, in order, leave neither": (
            abs(tf["all_ordered"]["mean"] - (MOMENTUM * tf["first"]["mean"] + tf["last"]["mean"])) < 1e-14
        ),
        "synchronised, towers and ranks have the same gradient and statistics": same["synchronised"] < 1e-14,
        "and they are those of one device with the whole batch": numbers["sync_apart"] < 1e-14,
    }
    return numbers, claims


def apart(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "9"])
