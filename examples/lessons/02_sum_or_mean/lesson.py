"""Sum or mean of the towers' gradients, and what it does to the learning rate."""

import numpy as np

random = np.random.RandomState(2)
X = random.randn(8, 3).round(3)
Y = random.randn(8).round(3)
WEIGHTS = [0.5, -0.25, 1.0]
LEARNING_RATE = 0.25
STEPS = 12
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": WEIGHTS,
    "learning_rate": LEARNING_RATE,
    "steps": STEPS,
    "counts": [1, 2, 4, 8],
    "limit": 4.0,  # of the norm, where gradients are clipped
}


def findings(tf, torch):
    counts = ARGUMENTS["counts"]
    whole = np.array(tf["gradients"]["mean"]["1"])
    ratios = {count: float(tf["gradients"]["sum"][str(count)][0] / whole[0]) for count in counts}
    runs, limit = tf["runs"], ARGUMENTS["limit"]
    by_example = 2 * (X @ WEIGHTS - Y)[:, None] * X
    of_towers = by_example.reshape(4, -1, 3).mean(axis=1)
    in_towers = np.mean([clip(gradient, limit) for gradient in of_towers], axis=0)
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "ratios": ratios,
        "by_example": by_example.tolist(),
        "norms": np.linalg.norm(of_towers, axis=1).tolist(),
        "whole_norm": float(np.linalg.norm(whole)),
        "adam_apart": apart(runs["adam mean"]["step"], runs["adam sum"]["step"]),
        "scaled_apart": apart(runs["mean"]["weights"], runs["sum, rate over 4"]["weights"]),
        "ports_apart": max(apart(tf["pair"][how], torch[how]) for how in ("mean", "sum")),
        "ported_apart": apart(tf["pair"]["sum"], torch["mean"]),
        "hessian": (2 * X.T @ X / len(X)).tolist(),
        "target": (2 * X.T @ Y / len(X)).tolist(),
        "stable": float(2 / np.linalg.eigvalsh(2 * X.T @ X / len(X)).max()),
    }
    claims = {
        "the mean over N towers is the same for every N": all(
            np.allclose(tf["gradients"]["mean"][str(count)], whole, rtol=1e-13) for count in counts
        ),
        "the sum over N towers is N times that": all(abs(ratios[count] / count - 1) < 1e-13 for count in counts),
        "the sum with a quarter of the rate trains as the mean over 4 towers does": numbers["scaled_apart"] < 1e-13,
        "the sum over 4 towers at the mean's rate leaves the range where descent is stable": (
            LEARNING_RATE < numbers["stable"] < 4 * LEARNING_RATE
            and runs["sum"]["losses"][-1] > runs["sum"]["losses"][0]
        ),
        "Adam's first step is the same with sum and mean, to a part in a million": numbers["adam_apart"] < 1e-6,
        "DDP's default is the towers' mean, and its sum hook the towers' sum": numbers["ports_apart"] < 1e-13,
        "clipped after they are combined, gradients have the limit as norm": (
            apart(tf["clipped"]["combined"], clip(whole, limit)) < 1e-14
        ),
        "clipped in each tower and then combined, they point elsewhere": (
            apart(tf["clipped"]["tower"], in_towers) < 1e-14
            and apart(tf["clipped"]["tower"], tf["clipped"]["combined"]) > 1e-2
        ),
        "a port of summing towers to plain DDP trains something else": numbers["ported_apart"] > 1e-2,
    }
    return numbers, claims


def clip(gradient, limit):
    return gradient * limit / max(limit, float(np.linalg.norm(gradient)))


def apart(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "2"])
