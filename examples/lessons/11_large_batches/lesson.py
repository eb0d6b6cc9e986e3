"""Large batches: scaling the learning rate with the number of towers, and warming it up."""

import numpy as np

TOWERS = 8
BATCH = 8  # of one tower
RATE = 5 / 128  # found good for one tower; a float32 exactly, as TensorFlow holds it
WARM_UP = 16
EPOCHS = 6
random = np.random.RandomState(23)
X = random.randn(512, 4).round(3)
direction = random.randn(4)
Y = (np.tanh(X @ direction) + 0.5 * np.tanh(2 * X[:, 0] * X[:, 1]) + 0.1 * random.randn(512)).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "w1": random.randn(4, 16).round(3).tolist(),
    "w2": random.randn(16).round(3).tolist(),
    "towers": TOWERS,
    "batch": BATCH,
    "rate": RATE,
    "warm_up_steps": WARM_UP,
    "epochs": EPOCHS,
}


def findings(tf, torch):
    runs = torch["runs"]
    last = {name: run["losses"][-1] for name, run in runs.items()}
    linear = torch["one step for eight"]
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "last": last,
        "large": TOWERS * BATCH,
        "scaled": TOWERS * RATE,
        "steps": len(tf["rates"]),
        "linear": linear,
        "noise": torch["noise"]["8"] / torch["noise"]["64"],
        "apart": max(float(np.abs(np.array(tf[key]) - runs["warmed up"][key]).max()) for key in ("w1", "w2")),
    }
    claims = {
        "eight times the batch has an eighth of the gradient's variance": 6 < numbers["noise"] < 10,
        "one large step at eight times the rate is nearly eight small ones, the nearer the smaller the rate": (
            linear[0]["off"] > 1.7 * linear[1]["off"] > 2.9 * linear[2]["off"]
        ),
        "eight towers at the rate of one learn less in the same epochs": last["same rate"] > 1.5 * last["one tower"],
        "at eight times the rate from the start the training blows up": not last["scaled"]
        < 10 * runs["scaled"]["losses"][0],
        "warmed up, it ends within a tenth of what one tower reaches": (
            abs(last["warmed up"] / last["one tower"] - 1) < 0.1
        ),
        "TensorFlow and torch warm up by the same rates": tf["rates"] == runs["warmed up"]["rates"],
        "and eight towers end with torch's weights": numbers["apart"] < 1e-10,
    }
    return numbers, claims


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "11"])
