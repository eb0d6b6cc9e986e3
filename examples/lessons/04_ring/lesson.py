"""Ring all-reduce, chunk by chunk, on send and recv; checked against all_reduce, its bytes counted against the bound."""

import numpy as np

SIZES = [2, 3, 4]
COUNTS = [1, 2, 3, 4, 6, 8, 16]  # of chunks, on the most ranks
ARGUMENTS = {"sizes": SIZES, "counts": COUNTS, "elements": 120_000, "few": 12, "odd": 10}


def findings(torch):
    runs = torch["runs"]
    size = 4 * ARGUMENTS["elements"]  # bytes of a float32 tensor
    bounds = {each: 2 * (each - 1) * size // each for each in SIZES}
    most = SIZES[-1]
    ways = [counted(count, ranks) for count, ranks in zip(COUNTS, torch["ways"], strict=True)]
    numbers = {**ARGUMENTS, "runs": runs, "torch": torch, "size": size, "bounds": bounds, "most": most, "ways": ways}
    claims = {
        f"any number of chunks: the sum comes out, and {2 * (most - 1)} times the tensor is sent over all links": all(
            way["sum"] == [most * (most + 1) / 2] and way["whole"] == 2 * (most - 1) * size for way in ways
        ),
        f"{most} chunks on {most} ranks, or a multiple of it: the steps take no longer than a rank sends": all(
            way["busiest"] == way["waits"] == bounds[most] for way in ways if way["chunks"] % most == 0
        ),
        "any other number of chunks: the steps take longer": all(
            way["waits"] > bounds[most] for way in ways if way["chunks"] % most
        ),
    }
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


def counted(count, ranks):
    """Returns what was sent with `count` chunks: by the busiest rank, over all links, and step by step on the fullest."""
    sent = [[sum(chunks) for chunks in rank["steps"]] for rank in ranks]
    return {
        "chunks": count,
        "sum": sorted({value for rank in ranks for value in rank["sum"]}),
        "busiest": max(map(sum, sent)),
        "whole": sum(map(sum, sent)),
        "waits": sum(map(max, zip(*sent, strict=True))),
        "messages": max(sum(map(len, rank["steps"])) for rank in ranks),
    }


if __name__ == "__main__":
    from parity.cli import main

    main(["teach", "4"])
