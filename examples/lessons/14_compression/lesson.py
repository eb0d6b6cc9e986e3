"""Gradient compression: what is left out, and what becomes of it with error feedback and without."""

import numpy as np

RANKS, SIZE, STEPS, COUNT = 2, 8, 50, 2
random = np.random.RandomState(6)
X = random.randn(32, SIZE).round(3)
# Every rank has its own optimum: at the common one its own gradient is not zero, and only the mean of all is.
OWN = random.randn(SIZE) + 1.5 * random.randn(RANKS, SIZE)
Y = np.concatenate([part @ own for part, own in zip(np.split(X, RANKS), OWN, strict=True)]).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "ranks": RANKS,
    "count": COUNT,
    "rate": 0.08,
    "steps": STEPS,
}


def findings(torch):
    runs, power = torch["runs"], torch["power"]
    best = least_loss()
    excess = {name: run["losses"][-1] - best for name, run in runs.items()}
    sent = {name: run["bytes"] for name, run in runs.items()}
    numbers = {
        **ARGUMENTS,
        "torch": torch,
        "size": SIZE,
        "best": best,
        "first": runs["all of it"]["losses"][0],
        "excess": excess,
        "sent": sent,
        "memory": runs["top, feedback"]["memory"],
        "power": {name: run["losses"][-1] for name, run in power.items()},
        "rate_of_rank_one": power["with"]["ratio"],
    }
    claims = {
        "the whole gradient reaches the least loss": excess["all of it"] < 1e-2,
        "the largest elements alone stop short of it, and with feedback come 20 times as near": (
            excess["top"] > 1 and excess["top"] > 20 * excess["top, feedback"]
        ),
        "so do signs": excess["sign"] > 1 and excess["sign"] > 20 * excess["sign, feedback"],
        "half precision hardly differs, at a quarter of float64's bytes": (
            excess["half"] < 1e-2 and 4 * sent["half"] == sent["all of it"]
        ),
        "a number and a place are sent for each of the largest elements": sent["top, feedback"] == COUNT * (8 + 4),
        "a bit is sent for each sign, and one number for all": sent["sign, feedback"] == SIZE // 8 + 8,
        "every rank ends with the same weights, whatever is sent": all(run["spread"] == 0 for run in runs.values()),
        "torch's PowerSGD with feedback ends below half the loss that it ends with without": (
            power["with"]["losses"][-1] < 0.5 * power["without"]["losses"][-1]
        ),
    }
    return numbers, claims


def least_loss():
    weights = np.linalg.lstsq(X, Y, rcond=None)[0]
    return float(np.mean((X @ weights - Y) ** 2))


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "14"])
