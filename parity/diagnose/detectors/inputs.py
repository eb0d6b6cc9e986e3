"""Causes in what towers and ranks are fed, seen in what they make of it."""

from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE, explained, same_values
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.result import Cause, FirstDifference
from parity.trace.arrays import Array


def other_shard(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """Ranks work on other towers' shards: all on one, or in another order."""
    found = _of_towers(first, evidence)
    if found is None:
        return None
    ones, others = found
    read = [
        # One number a tower where the quantity is a loss, else one array: compared with each tower of the reference in
        # turn.
        next((tower for tower, one in enumerate(ones) if same_values(one, other, evidence.close)), None)
        for other in others
    ]
    # Each rank must be some tower's to rounding, or nothing is told; in the order of the towers nothing is wrong.
    if None in read or read == list(range(len(read))):
        return None
    shown = ", ".join(f"rank {rank} that of tower {tower}" for rank, tower in enumerate(read))
    # All ranks one and the same shard: the sampler is not told of its rank.
    alike = len(set(read)) == 1
    return build_cause(
        "other_shard",
        "one" if alike else "exchanged",
        evidence=f"each rank's {_named(first)} is a tower's to the last bit but rounding: {shown}",
        tower=read[0],
    )


def order_of_examples(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The ranks together see the same examples, cut up otherwise: each result belongs to some example of the batch."""
    rows = _rows(first, evidence)
    if rows is None:
        return None
    ones, others, line = rows.ones, rows.others, rows.line
    # Sorted by one coordinate along a random line: the same rows in another order are the same sorted, and any other
    # set of rows differs at one of them. Argsorts of n against n^2 comparisons of whole rows.
    place, other_place = np.argsort(ones @ line), np.argsort(others @ line)
    if not same_values(ones[place], others[other_place], evidence.close):
        return None
    # place[k] of the reference's rows is the k-th along the line: the k-th of the ranks' went there.
    went = np.empty(len(place), np.int64)
    went[other_place] = place
    # Sorting alone proves nothing: the rows that were put together have to be the same ones, and to differ where they
    # stand.
    if (went == np.arange(len(went))).all() or not explained(others[other_place] - ones[place], others - ones, ones):
        return None
    ranks, size = rows.ranks, rows.first
    # Rank r gets the examples r, r + ranks, r + 2 ranks, ... of the batch: so DistributedSampler cuts it.
    dealt = np.concatenate([np.arange(rank, ranks * size, ranks) for rank in range(ranks)])
    how = (
        "dealt out in turn (rank, rank + world size, ...), as DistributedSampler does" if (went == dealt).all() else ""
    )
    # Within a rank only: the examples of one shard in another order, which no sampler of ranks does.
    within = all((went[rank * size : (rank + 1) * size] // size == rank).all() for rank in range(ranks))
    return build_cause(
        "order_of_examples",
        "in the ranks" if within else "to other ranks",
        evidence=f"the rows of {_named(first)} over all ranks are those of the towers in another order"
        + (f": {how}" if how else ""),
    )


def repeated_examples(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """The ranks together see some examples twice and others not at all."""
    rows = _rows(first, evidence)
    if rows is None:
        return None
    ones, others, went = rows.ones, rows.others, rows.nearest()
    # Examples that no row of the ranks is: as many rows are repeated as are missing, since both sides have equally
    # many.
    missing = sorted(set(range(len(ones))) - set(went.tolist()))
    if not missing or len(missing) == len(ones) or not same_values(ones[went], others, evidence.close):
        return None
    if not explained(others - ones[went], others - ones, ones):
        return None
    shown = ", ".join(map(str, missing[:8]))
    return build_cause(
        "repeated_examples",
        evidence=f"every row of {_named(first)} is that of an example of the batch; none is that of example {shown}",
        missing=len(missing),
        examples=len(ones),
    )


def examples_read(first: FirstDifference, evidence: Evidence) -> Array | None:
    """Returns which example of the batch each place of the ranks' shards holds, int ``[batch]``; None where it is not told.

    It is told where every row of the first layer that differs is that of one example of the batch, to rounding.
    """
    rows = _rows(first, evidence)
    if rows is None:
        return None
    went = rows.nearest()
    return went if same_values(rows.ones[went], rows.others, evidence.close) else None


class _Rows(NamedTuple):
    """The first layer that differs, a row for each example over all towers, and over all ranks.

    Fields:
      ones, others: ``[batch, ...]``, flattened to two axes.
      line: a direction in which rows of different examples lie apart.
      ranks: their number.
      first: the number of examples of the first.
    """

    ones: Array
    others: Array
    line: Array
    ranks: int
    first: int

    def nearest(self) -> Array:
        """Returns for each row of the ranks the row of the towers that lies nearest along the line, int ``[batch]``."""
        # (batch,): the projections. Rows of one batch are apart along a random line with probability 1.
        ones, others = self.ones @ self.line, self.others @ self.line
        ordered = np.argsort(ones, kind="stable")
        # The left neighbour may lie nearer: searchsorted gives the right one, from 1 to the last, so both are there.
        after = np.searchsorted(ones[ordered], others).clip(1, len(ones) - 1)
        nearer = np.where(others - ones[ordered[after - 1]] <= ones[ordered[after]] - others, after - 1, after)
        return np.asarray(ordered[nearer])


def _rows(first: FirstDifference, evidence: Evidence) -> _Rows | None:
    found = _of_towers(first, evidence)
    if found is None or first.quantity != "act" or found[0][0].ndim < 2:
        return None
    ones, others = (np.concatenate([each.reshape(len(each), -1) for each in side]) for side in found)
    batches = _batches(first, evidence)
    # Rows [examples, features] of a layer of one batch: a mean or a matrix of something else has another length.
    if ones.shape != others.shape or (batches and len(ones) not in batches):
        return None  # rows of anything else, such as moments, are no examples
    # One seed for both sides and every run: which line is drawn must not change what is named.
    line = np.random.default_rng(0).standard_normal((ones.shape[1],))
    return _Rows(ones, others, line, len(found[0]), len(found[0][0]))


def _of_towers(first: FirstDifference, evidence: Evidence) -> tuple[list[Array], list[Array]] | None:
    if first.quantity not in ("feed", "act", "loss") or evidence.towers == 1 or _are_in_place(first, evidence):
        return None
    step = first.check.step
    pairs = [
        (one, other)
        for tower in evidence.tower_names(step, first.quantity)
        for name, one, other in evidence.pairs(step, first.quantity, "", tower)
        if name == first.name
    ]
    # By tower; a layer is compared only where each rank and each tower has it.
    ones, others = [one for one, _ in pairs], [other for _, other in pairs]
    # Towers that saw the same, or a layer without values, would fit any order at all.
    alike = any(same_values(one, other, evidence.close) for k, one in enumerate(ones) for other in ones[k + 1 :])
    return None if len(pairs) < 2 or alike or max(np.abs(one).max() for one in ones) <= CLOSE else (ones, others)


def _batches(first: FirstDifference, evidence: Evidence) -> set[int]:
    """Returns how many examples all towers are fed together, of each feed; nothing where a trace holds no feeds."""
    lengths = [_lengths(first, evidence, tower) for tower in evidence.tower_names(first.check.step, "feed")]
    # All shards together, of each feed: an example is a row of a feed of that length.
    return {sum(each) for each in zip(*lengths, strict=False)}


def _lengths(first: FirstDifference, evidence: Evidence, tower: str) -> list[int]:
    return [len(one) for _, one, _ in evidence.pairs(first.check.step, "feed", "", tower) if one.ndim]


def _are_in_place(first: FirstDifference, evidence: Evidence) -> bool:
    """Whether an output that is computed earlier is the same, example for example: then towers read what they should."""
    keys = [key for key, _ in evidence.join.ordered(evidence.reference.step(first.check.step).names())]
    acts = [key.name for key in keys if key.quantity == "act" and key.tower == first.tower]
    if first.quantity != "act" or first.name not in acts:
        return False
    earlier, examples = acts[: acts.index(first.name)], _lengths(first, evidence, first.tower)
    # An output that has a row for each example, and is the same in the same order, says that the examples are the same.
    return any(
        name in earlier and one.ndim and len(one) in examples and (one != one[0]).any() and same_values(one, other)
        for name, one, other in evidence.pairs(first.check.step, "act", "", first.tower)
    )


def _named(first: FirstDifference) -> str:
    return f"{first.quantity} {first.name}" if first.name else first.quantity
