"""Accumulation: micro-batches whose gradients are added up, and the one all-reduce behind the last of them."""

import numpy as np

RANKS, PIECES = 2, 4
random = np.random.RandomState(31)
X = random.randn(16, 3).round(3)
Y = (X @ [0.8, -0.6, 0.4] + 0.3 * random.randn(16)).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "weights": [0.1, 0.2, -0.3],
    "ranks": RANKS,
    "pieces": PIECES,
    "ragged": [3, 3, 2],
    "rate": 0.1,
    "steps": 4,
}


def findings(torch):
    runs, ways = torch["runs"], ARGUMENTS
    whole = np.array(gradient(X, Y))
    off = {name: apart([np.array(run["gradient"]) for run in ranks], whole) for name, ranks in runs.items()}
    reduces = {name: ranks[0]["reduces"] for name, ranks in runs.items()}
    drifted = [np.array(rank) for rank in torch["never reduced"]]
    numbers = {
        **ways,
        "torch": torch,
        "whole": whole.tolist(),
        "off": off,
        "reduces": reduces,
        "times": float(np.linalg.norm(runs["not divided"][0]["gradient"]) / np.linalg.norm(whole)),
        "size": 8 * X.shape[1],
        "kept": torch["kept"],
        "drift": float(np.abs(drifted[0] - drifted[1]).max()),
    }
    right = ("at once", "every piece", "no_sync", "backward alone", "ragged, weighed")
    claims = {
        "one large batch, pieces that are reduced each, and pieces under no_sync have one gradient": all(
            off[name] < 1e-12 for name in right
        ),
        f"without no_sync {PIECES} pieces are reduced {PIECES} times, with it once": (
            reduces["at once"] == reduces["no_sync"] == 1 and reduces["every piece"] == PIECES
        ),
        "no_sync around backward alone saves nothing: DDP decides in the forward pass": reduces["backward alone"]
        == PIECES,
        f"losses that are not divided make the gradient {PIECES} times as large": abs(numbers["times"] - PIECES) < 1e-9,
        "of pieces of several sizes the mean of the means is another gradient": off["ragged, means"] > 1e-3,
        "clipped piece by piece it is another gradient, and clipped at the end it is the large batch's": (
            off_of(torch["clipped"]["each piece"], torch["clipped"]["at once"]) > 1e-3
            and off_of(torch["clipped"]["at the end"], torch["clipped"]["at once"]) < 1e-12
        ),
        "where the last piece is under no_sync too, every rank goes its own way": numbers["drift"] > 1e-2,
        "what backward keeps falls with the size of a piece": torch["kept"]["pieces"] * PIECES
        == torch["kept"]["at once"],
    }
    return numbers, claims


def gradient(x, y):
    """Returns the gradient of the mean loss of these examples at the first weights."""
    return 2 * x.T @ (x @ ARGUMENTS["weights"] - y) / len(x)


def apart(gradients, whole):
    return max(float(np.abs(each - whole).max()) for each in gradients)


def off_of(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "13"])
