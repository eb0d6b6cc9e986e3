"""Reads a time-out from the command line."""

import argparse
import math


def seconds(text: str) -> float:
    """Returns a positive, finite number of seconds.

    Raises:
      ArgumentTypeError: it is none.
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text!r}")
    return found
