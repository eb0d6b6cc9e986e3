"""Ring all-reduce, chunk by chunk, on send and recv; checked against all_reduce, its bytes counted against the bound."""

import numpy as np

SIZES = [2, 3, 4]
ARGUMENTS = {"sizes": SIZES, "elements": 120_000, "few": 12, "odd": 10}


def findings(torch):
    runs = torch["runs"]
    size = 4 * ARGUMENTS["elements"]  # bytes of a float32 tensor
    bounds = {each: 2 * (each - 1) * size // each for each in SIZES}
    numbers = {**ARGUMENTS, "runs": runs, "torch": torch, "size": size, "bounds": bounds, "most": SIZES[-1]}
    claims = {}
    for each in SIZES:
        ranks = runs[str(each)]
        claims[f"{each} ranks: every rank holds the same bits"] = len({rank["digest"] for rank in ranks}) == 1
        claims[f"{each} ranks: they are those of dist.all_reduce, up to the order of the sum"] = all(
            rank["apart"] <= 4 * np.finfo(np.float32).eps for rank in ranks
        )
        claims[f"{each} ranks: each sends 2(N-1)/N of the tensor, {bounds[each]:,} bytes, and no byte more"] = all(
            rank["sent"] == bounds[each] for rank in ranks
        )
        claims[f"{each} ranks: by way of rank 0, that one sends and receives 2(N-1) times the tensor"] = (
            ranks[0]["through_root"] == 2 * (each - 1) * size
        )
    claims["a tensor that the ranks do not divide is reduced as well"] = all(
        rank["odd"] == [sum(range(1, 5)) * (at + 1) for at in range(ARGUMENTS["odd"])] for rank in runs["4"]
    )
    claims["in the end every chunk holds every rank's part"] = all(
        set(row) == {1111} for row in torch["story"][-1]["holds"]
    )
    return numbers, claims


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "4"])
