"""What a tower is: split, compute, combine, apply; the same numbers from TensorFlow's towers and from one torch model."""

import numpy as np

TOWERS = 2
ROUNDING = 1e-14  # eight terms of size 5, each rounded to half of 2 ** -52
LEARNING_RATE = 0.125  # a rate of 0.1 would be rounded to float32 by TensorFlow and not by torch
random = np.random.RandomState(1)
X = random.randn(8, 3).round(3)
Y = random.randn(8).round(3)
WEIGHTS = [0.5, -0.25, 1.0]
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": WEIGHTS,
    "towers": TOWERS,
    "learning_rate": LEARNING_RATE,
}


def findings(tf, torch):
    by_example = 2 * (X @ WEIGHTS - Y)[:, None] * X  # the gradient of each example's squared error
    combined, whole = np.array(tf["combined"]), np.array(torch["gradient"])
    apart = float(np.abs(combined - whole).max())
    moved = float(np.abs(np.array(tf["after"]) - np.array(torch["after"])).max())
    shards = by_example.reshape(TOWERS, -1, 3).mean(axis=1)
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "by_example": by_example.tolist(),
        "apart": apart,
        "moved": moved,
        "size": len(X),
        "piece": len(X) // TOWERS,
    }
    claims = {
        f"{TOWERS} towers share one variable": tf["variables"] == ["w"],
        "each tower has a gradient of its own, that of its piece of the batch": np.allclose(
            tf["tower_gradients"], shards, rtol=1e-13
        ),
        "their mean is the gradient of the whole batch, as torch computes it without towers": apart < ROUNDING,
        "one update is applied in a step, however many towers there are": tf["updates"] == 1,
        "after it the towers' weights are torch's, to the last bits of float64": moved < ROUNDING,
    }
    return numbers, claims


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "1"])
