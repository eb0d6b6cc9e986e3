"""Where two forward passes part: compares what either side masks by, which is made of data alone.

A mask may be made in any way, and applied in any: added, multiplied, or filled in. All that is compared is which places it
leaves out. Its control is the reference's pass with the port's places in its own mask: it has to give what the port has.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import is_mask
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.downstream import active, readers
from parity.locate.layouts import align, layouts, same_in_some_layout
from parity.locate.matching import Pass
from parity.trace.arrays import Array

MOST_OPS_WITH_MASK = 8  # ops behind the parting that may take the mask
MOST_COMPUTED = 24  # ops behind the reference's mask that are computed again
LEAST_SHARE = 0.5  # of the numbers, where whole rows are left out: of these nobody can say what a mask makes of them


class Masking(NamedTuple):
    """An op that takes a mask.

    Fields:
      number: of the op.
      at: place among its operands.
      mask: what it takes there, as it takes it.
      places: bool, of the op's shape: where the mask has the larger of its two numbers.
    """

    number: int
    at: int
    mask: Array
    places: Array


def cause_of_mask(place: Location) -> Cause | None:
    """Returns the cause where the two sides mask other places, and that gives the port's numbers; None where it does not.

    Args:
      place: where the passes part.
    """
    reference, candidate = place.passes
    own, other = (
        next(chain(_masking(passed, number), _masked_before(passed, number)), None)
        for passed, number in zip(place.passes, (place.parting.reference, place.parting.candidate), strict=True)
    )
    if own is None or other is None or own.places.size != other.places.size:
        return None
    if any(_same_places(own.places, each) for each in (other.places, ~other.places)):
        return None
    run = RecomputedPass(reference)
    beyond = [
        value
        for number in range(other.number, len(candidate.ops))
        if number not in place.reached.candidate and (value := candidate.value(number)) is not None
        if value.dtype.kind == "f" and np.isfinite(value).all() and value.size > 1
    ][:MOST_COMPUTED]
    for places in (other.places, ~other.places):
        for turned in layouts(places, own.places.shape):
            share = _share(run, own, turned.astype(bool), beyond)
            if share is None:
                continue
            differ = int((turned.astype(bool) != own.places).sum())
            lines = [
                line.alone
                for passed, each in ((candidate, other), (reference, own))
                if (line := passed.ops[each.number].line) is not None
            ]
            return build_cause(
                "mask",
                "places",
                evidence=f"both are made of data alone; with the port's places in its mask the reference gives {share} that "
                "the port has, to rounding",
                count=f"{differ:,} of {turned.size:,}",
                lines=" / ".join(lines),
            )
    return None


def _same_places(reference: Array, candidate: Array) -> bool:
    """Whether two masks leave out the same places.

    In one shape as they stand: along the queries in place of the keys is another mask. In another shape under some order of
    axes, for the port may have its own.
    """
    if reference.shape == candidate.shape:
        return bool(np.array_equal(reference, candidate))
    return same_in_some_layout(reference, candidate, CLOSE)


def _masking(passed: Pass, start: int | None) -> Iterator[Masking]:
    """Yields the first ops, from where a pass parts on, that take a mask of data alone beside what weights go into."""
    of_weights, after = active(passed.ops), readers(passed.ops)
    behind, left = {start}, MOST_OPS_WITH_MASK
    for number in range(start if start is not None else len(passed.ops), len(passed.ops)):
        if number not in behind:
            continue
        behind.update(after[number])
        op = passed.ops[number]
        if number not in of_weights:
            continue
        left -= 1
        for at, operand in enumerate(op.operands):
            of_data = operand.op not in of_weights and operand.name not in op.weights
            mask = passed.operand(number, at) if of_data else None
            if mask is not None and mask.dtype.kind in "fb" and is_mask(mask):
                try:
                    places = np.broadcast_to(mask == mask.max(), op.shape)
                except ValueError:  # it is laid out otherwise than what comes out
                    continue
                yield Masking(number, at, mask, places)
        if not left:
            return


def _masked_before(passed: Pass, start: int | None) -> Iterator[Masking]:
    """Yields what masks the scores that an op takes: of symmetric ones the same numbers are left by either axis."""
    for number in passed.ops[start].inputs if start is not None else ():
        yield from (each for each in _masking(passed, number) if each.number == number)


def _share(run: RecomputedPass, own: Masking, places: Array, beyond: list[Array]) -> str | None:
    """Which numbers are the port's where the reference masks by other places; None where too few are."""
    taken = run.takes(own.number)
    if taken is None or not run.computes(own.number):
        return None
    mask = np.where(places, own.mask.max(), own.mask.min()).astype(own.mask.dtype)
    made = run.given(own.number, [mask if at == own.at else each.value for at, each in enumerate(taken)])
    if made is None or made.shape != places.shape:
        return None
    # Where a mask leaves nothing of a row, what becomes of the row is a matter of what it is filled with.
    emptied = any((places.all(axis=axis) | ~places.any(axis=axis)).any() for axis in range(places.ndim))
    for number, value in [(own.number, made), *run.after({own.number: made}, MOST_COMPUTED)]:
        unchanged = run.output(number)
        for wanted in beyond if np.isfinite(value).all() and unchanged is not None else ():
            pair = align(wanted, value) if wanted.size == value.size else None
            before = align(wanted, unchanged) if pair is not None and unchanged is not None else None
            if pair is None or before is None:
                continue
            right, was = (_right(each.reference, each.candidate) for each in (pair, before))
            # More than without the change by as much as it moves: a number that it does not reach shows nothing.
            if right == value.size and was < right:
                return f"the {value.size:,} numbers"
            if emptied and right >= LEAST_SHARE * value.size and right - was >= LEAST_SHARE * (value.size - was):
                return f"{right:,} of the {value.size:,} numbers (of rows that are masked as a whole the others are)"
    return None


def _right(wanted: Array, made: Array) -> int:
    scale = float(np.median(np.abs(wanted)))
    return int((np.abs(wanted - made) <= CLOSE * (np.abs(wanted) + scale)).sum())
