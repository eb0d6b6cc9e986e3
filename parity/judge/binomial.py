"""Says how well a rate is known from a count: intervals, and what a majority makes of it."""

from collections.abc import Callable
from math import exp, fsum, lgamma, log, log1p


def rate_interval(found: int, tried: int) -> tuple[float, float]:
    """Returns the 95% interval of a rate after Clopper and Pearson: 2.5% of the binomial law lie beyond either end.

    Args:
      found: successes, from 0 to `tried`.
      tried: independent trials; with none nothing is known.

    Source: C. J. Clopper, E. S. Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934).
    """
    # Of 0 in 20 the interval is 0 to 16.8%; 5 or more of 9 then happen in 0.94% of verdicts at most.
    low = 0.0 if found == 0 else _solved(lambda rate: at_least(found, tried, rate) - 0.025)
    high = _solved(lambda rate: at_least(found + 1, tried, rate) - 0.975)
    return low, high


def most_of(runs: int, rate: float) -> float:
    """Returns the probability that more than half of `runs` independent runs are outside, each with probability `rate`."""
    # The median of an odd number of runs is outside when more than half of them are.
    return at_least(runs // 2 + 1, runs, rate)


def at_least(found: int, tried: int, rate: float) -> float:
    """Returns the probability of at least `found` successes in `tried` independent trials of probability `rate`."""
    # log(0) below: at rate 0 nothing but 0 successes happens, at rate 1 nothing but all.
    if not 0.0 < rate < 1.0:
        return float(found <= (tried if rate >= 1.0 else 0))
    # By logarithms: the binomial coefficients of a thousand trials are beyond any float.
    whole, yes, no = lgamma(tried + 1), log(rate), log1p(-rate)
    terms = (
        exp(whole - lgamma(k + 1) - lgamma(tried - k + 1) + k * yes + (tried - k) * no) for k in range(found, tried + 1)
    )
    return min(1.0, fsum(terms))


def _solved(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    # 60 halvings leave 2^-60, less than the roundoff of a rate near 1. Invariant: rising(low) <= 0 < rising(high).
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0.0 else (middle, high)
    return (low + high) / 2
