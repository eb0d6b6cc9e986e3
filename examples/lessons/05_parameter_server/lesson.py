"""Parameter server: a real TensorFlow cluster, synchronous and asynchronous, against DDP."""

import numpy as np

random = np.random.RandomState(5)
X = random.randn(8, 3).round(3)
Y = random.randn(8).round(3)
WEIGHTS = [0.5, -0.25, 1.0]
RATE = 0.125
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": WEIGHTS,
    "learning_rate": RATE,
    "steps": 3,
    "rounds": 10,
    "slow": 3,
}


def findings(tf, torch):
    steps, slow = ARGUMENTS["steps"], ARGUMENTS["slow"]
    first, second = torch["weights"]
    chief, other = tf["synchronous"]
    even, late = np.array(WEIGHTS), np.array(WEIGHTS)
    for _ in range(steps):
        even = even - RATE * (gradient(even, 0) + gradient(even, 1))
    held = gradient(late, 1)
    for _ in range(slow):
        late = late - RATE * gradient(late, 0)
    late = late - RATE * held
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "ddp": first,
        "sync": chief["weights"],
        "sync_apart": apart(chief["weights"], first),
        "even_apart": apart(tf["even"]["weights"], first),
        "even_loss": loss(tf["even"]["weights"]),
        "sync_loss": loss(chief["weights"]),
        "first_loss": loss(WEIGHTS),
        "homes": sorted({found["home"] for found in tf["synchronous"]}),
        "race_loss": loss(tf["race"]["weights"]),
        "race_late": sum(stale > 0 for stale in tf["race"]["stale"]),
        "race_most": max(tf["race"]["stale"]),
        "late": {**tf["late"], "most": max(tf["late"]["stale"])},
    }
    claims = {
        "both workers use the variable on the parameter server": numbers["homes"] == ["/job:ps/task:0"],
        f"{steps} synchronous steps of two workers make {steps} updates": chief["updates"] == steps,
        "both workers then read the same weights": chief["weights"] == other["weights"],
        "they are DDP's weights, to rounding": numbers["sync_apart"] < 1e-14 and first == second,
        "asynchronously, every gradient is an update of its own": (
            tf["even"]["updates"] == 2 * steps and tf["race"]["updates"] == 2 * ARGUMENTS["rounds"]
        ),
        "two asynchronous workers at one pace then move as if the gradients were summed": (
            apart(tf["even"]["weights"], even) < 1e-14
        ),
        "which is not what DDP does": numbers["even_apart"] > 1e-2,
        f"a slow worker's gradient is applied to weights that are {slow} updates on": (
            tf["late"]["stale"] == [0] * slow + [slow] and apart(tf["late"]["weights"], late) < 1e-14
        ),
    }
    return numbers, claims


def gradient(weights, worker):
    x, y = np.split(X, 2)[worker], np.split(Y, 2)[worker]
    return 2 * x.T @ (x @ weights - y) / len(x)


def loss(weights):
    return float(np.mean((X @ np.array(weights) - Y) ** 2))


def apart(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "5"])
