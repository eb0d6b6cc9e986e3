"""Looks for places and causes of a difference without the verdict resting on that."""

import os
from collections.abc import Callable
from typing import TypeVar

from parity.worker.failures import SideFailed

T = TypeVar("T")
DEBUG = "PARITY_DEBUG"
FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def outliving(notes: list[str], look: Callable[[], T]) -> T | None:
    """Returns what a search for causes finds; None, and a note, where it fails by its own fault or a side's.

    Args:
      notes: of the level, extended in place.
      look: searches.

    Raises:
      Exception: what the search met, where the environment has `PARITY_DEBUG`.
    """
    try:
        return look()
    except SideFailed as error:
        if os.environ.get(DEBUG):
            raise
        notes.append(f"the search for causes did not finish: {error} The verdict does not depend on it")
        return None
    except FAULTS as error:
        if os.environ.get(DEBUG):
            raise
        told = (str(error).splitlines() or [""])[0]
        notes.append(
            f"the search for causes did not finish: {type(error).__name__}: {told}. The verdict does not depend on "
            f"it; this is a fault of parity, not of the port: please report it, with what {DEBUG}=1 shows"
        )
        return None
