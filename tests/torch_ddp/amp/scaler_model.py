"""The rule of loss scaling written a second time, from its description and in another form, to be compared with."""

from typing import NamedTuple


class Seen(NamedTuple):
    scale: float
    unskipped: int
    skipped: bool


def scales(overflows, minimum=None, maximum=2.0**24):
    """Yields what holds after each backward pass, by counting runs of clean passes in the whole history.

    No state moves along: the exponent of the scale is worked out from the last overflow on, where a run of n clean
    passes has doubled it n // 2000 times.
    """
    low = minimum if minimum else 0.0
    start = min(maximum, 2.0**16)
    run = 0
    for overflow in overflows:
        if overflow:
            scale = _grown(start, run, maximum)
            start, run = max(low, scale * 0.5), 0
        else:
            run += 1
        yield Seen(_grown(start, run, maximum), run % 2000, bool(overflow))


def _grown(start, run, maximum):
    return start if run < 2000 else min(maximum, start * 2.0 ** (run // 2000))
