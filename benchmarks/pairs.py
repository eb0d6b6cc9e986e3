"""Ratios of two things measured in turn: their median with an interval that holds it in 95 of 100 cases."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Ratio(NamedTuple):
    """The ratio of one time to another over many pairs.

    Fields:
      median: over the pairs.
      low, high: 95% interval of the median, from the order statistics of the pairs (no distribution assumed).
      pairs: their number.
    """

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.3f}  (95%: {self.low:.3f} to {self.high:.3f}, {self.pairs} pairs)"


def ratio(ones: list[float], others: list[float]) -> Ratio:
    """Returns the ratio of `ones` to `others`, measured in pairs."""
    ratios = sorted(one / other for one, other in zip(ones, others, strict=True))
    count = len(ratios)
    # The median lies between the order statistics that a fair coin puts outside with 2.5% on either side.
    margin = round(0.98 * count**0.5)
    low, high = max(0, count // 2 - margin), min(count - 1, (count - 1) // 2 + margin)
    return Ratio(statistics.median(ratios), ratios[low], ratios[high], count)


def in_turn(
    one: Callable[[], object], other: Callable[[], object], pairs: int, warm_up: int = 2
) -> tuple[list[float], list[float]]:
    """Times two functions in turn, swapping who goes first; returns the seconds of both."""
    ones: list[float] = []
    others: list[float] = []
    for pair in range(pairs + warm_up):
        order = [(one, ones), (other, others)]
        for function, kept in order if pair % 2 else reversed(order):
            begin = time.perf_counter()
            function()
            if pair >= warm_up:
                kept.append(time.perf_counter() - begin)
    return ones, others
