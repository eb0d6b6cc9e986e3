"""What moving statistics and averages can become where the graph leaves the order of reads and writes open."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.metrics import distance
from parity.trace.arrays import Array


class Outcome(NamedTuple):
    """What one order of reads and writes leaves.

    Fields:
      order: in words, e.g. "read 1, write 1, read 0, write 0".
      value: the statistic afterwards.
    """

    order: str
    value: Array


def outcomes(before: Array, alone: Sequence[Array], decay: Array) -> Iterator[Outcome]:
    """Yields what every order of the towers' reads and writes makes of a statistic.

    A tower reads the statistic, works out ``decay * read + its own part``, and writes: by subtracting the difference from
    what is there by then, as `assign_moving_average` and `assign_sub` do, or over it, as `assign` does. A read may come
    before or after the writes of others, so that the decay counts between once and as often as there are towers.

    Args:
      before: the statistic before the step.
      alone: a list over the towers of what each one alone makes of it.
      decay: what each keeps of what it reads, of the statistic's shape or a scalar.
    """
    # (2n)! / 2^n orders for n towers, each for both kinds of write: 12 for 2 towers, 180 for 3, 5,040 for 4 (0.15 s).
    for subtracts in (True, False):
        yield from _go_on(before, {}, frozenset(range(len(alone))), (before, alone, decay, subtracts), ())


def _go_on(
    value: Array,
    pending: dict[int, Array],
    unread: frozenset[int],
    known: tuple[Array, Sequence[Array], Array, bool],
    order: tuple[str, ...],
) -> Iterator[Outcome]:
    # Invariant: a tower is in `unread`, or in `pending` with what it will write, or has written: each step moves one
    # on.
    if not pending and not unread:
        yield Outcome(", ".join(order), value)
    before, alone, decay, subtracts = known
    # Sorted, so that the first of equal outcomes is the same in every run.
    for tower in sorted(unread):
        # Alone it makes decay * before + own part of it; of `value` it makes that, moved by what the decay keeps of the
        # change.
        made = alone[tower] + decay * (value - before)
        # `assign_sub` takes its change from what is there by then; `assign` writes over whatever that is.
        written = made - value if subtracts else made
        yield from _go_on(value, {**pending, tower: written}, unread - {tower}, known, (*order, f"read {tower}"))
    for tower, written in pending.items():
        rest = {other: change for other, change in pending.items() if other != tower}
        after = value + written if subtracts else written
        yield from _go_on(after, rest, unread, known, (*order, f"write {tower}"))


def nearest(wanted: Array, found: Sequence[Outcome]) -> Outcome:
    """Returns the outcome that is nearest to a value, the first of several."""
    # By the norm over all elements: one order has written all of a statistic.
    return min(found, key=lambda outcome: distance(wanted, outcome.value))


def kept_part(once: Array, moved: Array, shift: float) -> Array:
    """Returns what an update keeps of a statistic, from what it makes of it and of the same moved by `shift`.

    One number for all elements where they agree, which they do in every batch norm: so the rounding of one does not count.
    """
    # Both are off by u64 of the statistic at most, so that elements agree to 1e-9 up to statistics of some 1e6.
    parts = np.asarray((np.asarray(moved, np.float64) - np.asarray(once, np.float64)) / shift)
    middle = np.median(parts)
    return np.asarray(middle) if np.all(np.abs(parts - middle) <= 1e-9) else parts


def averages(before: Array, weights: Mapping[str, Array], kept: Sequence[np.floating]) -> list[Outcome]:
    """Returns what a moving average becomes where nobody says whether it takes the old weights or the new ones.

    Args:
      before: the average before the step.
      weights: dict of words for them, e.g. "old weights", to the weights that it may take.
      kept: what it may keep of itself, float32 as the graph holds it.

    Source: tensorflow/python/training/moving_averages.py (1.15), assign_moving_average.
    """
    return [
        # In the order of assign_moving_average: 1 - decay in float32, as the graph holds it, times the difference.
        Outcome(words, before - (before - taken) * (np.float32(1) - part).astype(before.dtype))
        for words, taken in weights.items()
        for part in kept
    ]


def decays(decay: float, counted: bool, updates: int) -> list[np.floating]:
    """Returns what an average may keep of itself, float32: with `num_updates` the count may be read before it grows.

    Args:
      decay: of the average.
      counted: whether the decay grows with the number of updates, as ``(1 + n) / (10 + n)``.
      updates: their number before the step.

    Source: tensorflow/python/training/moving_averages.py (1.15), ExponentialMovingAverage.apply.
    """
    # A constant decay is the same whenever it is read.
    if not counted:
        return [np.float32(decay)]
    # The count may be read before the update or after it: nothing orders the two.
    counts = np.float32(updates), np.float32(updates + 1)
    return [min(np.float32(decay), (np.float32(1) + n) / (np.float32(10) + n)) for n in counts]


def nearest_of_each(wanted: Array, found: Sequence[Outcome]) -> Outcome:
    """Returns for each element the outcome that is nearest to it: what is read while it is written is of both.

    The order then names all of these outcomes.
    """
    # (outcomes, the average's shape).
    values = np.stack([outcome.value for outcome in found])
    # Element by element, for a read of an array that is being written sees some old elements and some new ones.
    chosen = np.argmin(np.abs(values - wanted), axis=0)
    orders = dict.fromkeys(found[place].order for place in np.unique(chosen))
    return Outcome(" and ".join(orders), np.take_along_axis(values, chosen[np.newaxis], axis=0)[0])
