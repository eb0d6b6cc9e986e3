"""From towers to DDP: who holds the weights, and what travels in a step; read off both programs while they run."""

import numpy as np

COUNT = 2
random = np.random.RandomState(3)
X = random.randn(8, 3).round(3)
Y = random.randn(8).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": Y.tolist(),
    "w1": (random.randn(3, 4) / 2).round(3).tolist(),
    "w2": random.randn(4, 1).round(3).tolist(),
    "count": COUNT,
    "learning_rate": 0.125,
    "steps": 3,
}


def findings(tf, torch):
    size = tf["weight_bytes"]
    travels = {kind: sum(send["bytes"] for send in tf["sends"] if send["kind"] == kind) for kind in KINDS}
    first, second = (np.concatenate([np.ravel(rank["w1"]), np.ravel(rank["w2"])]) for rank in torch["ranks"])
    towers = np.concatenate([np.ravel(tf["w1"]), np.ravel(tf["w2"])])
    numbers = {
        **ARGUMENTS,
        "tf": tf,
        "torch": torch,
        "size": size,
        "travels": travels,
        "through_host": travels["weights"] + travels["gradients"],
        "by_ring": 2 * (COUNT - 1) * size // COUNT,
        "apart": float(np.abs(towers - first).max()),
    }
    claims = {
        "the towers' weights live once, on the host": set(tf["homes"].values()) == {"CPU:0"},
        "every step sends the weights to each tower": travels["weights"] == COUNT * size,
        "every step sends each tower's gradients back": travels["gradients"] == COUNT * size,
        "under DDP every rank holds all weights": all(rank["weight_bytes"] == size for rank in torch["ranks"]),
        "ranks that began with other weights get those of rank 0": (
            torch["ranks"][1]["own"] != torch["ranks"][0]["own"]
            and torch["ranks"][1]["wrapped"] == torch["ranks"][0]["own"]
        ),
        "under DDP only gradients travel": all(rank["reduced"] == [size] * 3 for rank in torch["ranks"]),
        "after three updates, each made for itself, the ranks still hold the same bits": bool(np.all(first == second)),
        "a parameter that one rank does not use is an error": "finished reduction" in torch["unused"]["raises"],
        "or, with find_unused_parameters, a gradient of zero that leaves the ranks equal": torch["unused"]["equal"],
        "and they are the towers' weights, to rounding": numbers["apart"] < 1e-14,
    }
    return numbers, claims


KINDS = ("weights", "gradients", "batch")

if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "3"])
