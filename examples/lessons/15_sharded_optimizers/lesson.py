"""Sharded optimizers: what a rank holds at each stage of ZeRO, and what stays equal to DDP."""

import numpy as np

RANKS, FEW = 4, 2
random = np.random.RandomState(15)
SHAPES = [(8, 7), (8,), (4, 8), (4,)]
X = random.randn(24, 7).round(3)
ARGUMENTS = {
    "x": X.tolist(),
    "y": np.sin(X @ random.randn(7, 4)).round(3).tolist(),
    "weights": [(0.5 * random.randn(*shape)).round(3).tolist() for shape in SHAPES],
    "worlds": [FEW, 3, RANKS],
}


def findings(torch):
    worlds = torch["worlds"]
    ranks = worlds[str(RANKS)]
    ways = list(ranks[0]["float64"])
    held = {
        way: {
            name: [rank["float64"][way][name] for rank in ranks]
            for name in ("weights", "between", "gradients", "slots")
        }
        for way in ways
    }
    off = {
        name: {size: {way: apart(found, name, way) for way in ways[1:]} for size, found in worlds.items()}
        for name in ("float32", "float64")
    }
    clipped = {way: off_of(last, ranks[0]["clipped"]["DDP"]) for way, last in ranks[0]["clipped"].items()}
    saved, orders = ranks[0]["saved"], {size: found[0]["orders"]["chunks"] for size, found in worlds.items()}
    count = sum(int(np.prod(shape)) for shape in SHAPES)
    numbers = {
        "ranks": RANKS,
        "few": FEW,
        "count": count,
        "held": held,
        "off": off,
        "sent": {way: ranks[0]["float64"][way]["sent"] for way in ways},
        "clipped": clipped,
        "saved": saved,
        "orders": orders,
        "empty": [rank["saved"]["shard"] for rank in worlds["3"]],
        "gradients": [rank["gradient"] for rank in ranks],
        "start": np.concatenate([np.ravel(each) for each in ARGUMENTS["weights"]]).tolist(),
        "step": ranks[0]["clipped"]["DDP"],
        "lines": torch["lines"],
    }
    slots = {way: sum(held[way]["slots"]) for way in ways}
    claims = {
        "the slots of all ranks together are kept once at every stage, and once on each rank under DDP": (
            slots["ZeRO 1"] == slots["ZeRO 2"] == slots["ZeRO 3"] == 16 * count and slots["DDP"] == RANKS * 16 * count
        ),
        "stage 1 keeps weights and gradients whole; FSDP keeps a share of both": (
            min(held["ZeRO 1"]["weights"]) == min(held["ZeRO 1"]["gradients"]) == 8 * count
            and max(held["ZeRO 3"]["weights"]) == max(held["ZeRO 3"]["gradients"]) == 8 * count / RANKS
        ),
        "stage 1 is DDP to the bit, on any number of ranks": all(
            each["ZeRO 1"] == 0 for sizes in off.values() for each in sizes.values()
        ),
        "so is FSDP on two ranks": off["float32"][str(FEW)]["ZeRO 3"] == off["float64"][str(FEW)]["ZeRO 3"] == 0,
        "on four it is not, by rounding alone": (
            0 < off["float32"][str(RANKS)]["ZeRO 3"] < 1e-5 and off["float64"][str(RANKS)]["ZeRO 3"] < 1e-13
        ),
        "every chunk of an all-reduce is added up in an order of its own, which reduce-scatter shares": (
            all(each["orders"]["equal"] for found in worlds.values() for each in found)
            and len({tuple(order) for order in orders[str(RANKS)]}) == RANKS
            and all(orders[str(RANKS)])
        ),
        "weights that stay whole from forward to backward are gathered half as often": (
            2 * numbers["sent"]["ZeRO 2"]["allgather_base"] == numbers["sent"]["ZeRO 3"]["allgather_base"]
            and min(held["ZeRO 2"]["between"]) == 8 * count == RANKS * max(held["ZeRO 3"]["between"])
        ),
        "clipped by the norm of all shards it is DDP's update, and by each shard's own another": (
            clipped["ZeRO 1"] == 0 and clipped["ZeRO 3"] < 1e-13 and clipped["own"] > 1e-3
        ),
        "a rank's own part of a checkpoint is a share, and what is gathered on rank 0 is the model": (
            RANKS * saved["shard"] == saved["full"] == count and saved["loaded"] == saved["gathered"]
        ),
    }
    return numbers, claims


def apart(found, name, way):
    return max(off_of(rank[name][way]["last"], rank[name]["DDP"]["last"]) for rank in found)


def off_of(one, other):
    return float(np.abs(np.array(one) - np.array(other)).max())


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "15"])
