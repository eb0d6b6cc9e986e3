"""Mixed precision: what float16 loses, loss scaling, master weights, and the levels O0 to O3."""

import numpy as np

random = np.random.RandomState(8)
X = random.randn(64, 4).round(3)
Y = (X @ [1.5, -1.0, 0.75, 2.0] + 0.1 * random.randn(64)).round(3)
ARGUMENTS = {
    "probes": [1e-8, 1.0001, 70000.0, 0.1],
    "inputs": (10.0 ** -random.uniform(1, 4, 40)).tolist(),
    "factor": 1e-5,  # of the loss: the gradients are the inputs times this
    "scale": 1024.0,
    "update": 1e-4,
    "updates": 100,
    "steep": 4.0,  # a gradient that overflows float16 when it is scaled by 2**16
    "steps": 6,
    "x": X.tolist(),
    "y": Y.tolist(),
    "rate": 0.01,
    "train_steps": 400,
}


def findings(tf, torch):
    exact = np.array(ARGUMENTS["inputs"]) * ARGUMENTS["factor"]
    lost = {name: int(np.sum(np.array(tf["gradients"][name]) == 0)) for name in ("plain", "scaled")}
    off = {name: float(np.median(np.abs(np.array(tf["gradients"][name]) / exact - 1))) for name in ("plain", "scaled")}
    levels = torch["levels"]
    distance = {
        level: float(np.abs(np.array(levels[level]["weights"]) - levels["O0"]["weights"]).max()) for level in levels
    }
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "count": len(exact),
        "exact": exact.tolist(),
        "lost": lost,
        "off": off,
        "levels": levels,
        "distance": distance,
        "skips": sum(tf["dynamic"]["skipped"]),
        "wanted": 1 + ARGUMENTS["update"] * ARGUMENTS["updates"],
    }
    claims = {
        "float16 ends at 65504, and what is beyond it is infinite": tf["rounded"][2] == "inf"
        and torch["largest"] == 65504,
        "both frameworks round to the same float16": tf["rounded"] == torch["rounded"],
        "small gradients become zero in float16": lost["plain"] > 5
        and tf["gradients"]["plain"] == torch["gradients"]["plain"],
        "with the loss scaled none does": lost["scaled"] == 0 and off["scaled"] < 1e-3,
        "and both frameworks find the same": tf["gradients"]["scaled"] == torch["gradients"]["scaled"],
        "a float16 weight does not see small updates; a float32 master does": (
            tf["weight"]["half"] == torch["weight"]["half"] == 1.0
            and abs(tf["weight"]["master"] - numbers["wanted"]) < 1e-3
            and abs(torch["weight"]["master"] - numbers["wanted"]) < 1e-3
        ),
        "towers and torch_ddp.amp halve the scale at the same steps, and skip those": (
            tf["dynamic"]["scales"] == torch["dynamic"]["scales"]
            and tf["dynamic"]["skipped"] == torch["dynamic"]["skipped"]
            and numbers["skips"] == 3
        ),
        "O1 and O2 train as float32 does, to half precision; O3 does not": (
            max(distance["O1"], distance["O2"]) < 2e-3 < distance["O3"] / 3
        ),
        "O0 and O1 keep float32 weights, O2 and O3 half ones": (
            [levels[level]["dtype"] for level in ("O0", "O1", "O2", "O3")]
            == ["torch.float32", "torch.float32", "torch.float16", "torch.float16"]
        ),
    }
    return numbers, claims


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "8"])
