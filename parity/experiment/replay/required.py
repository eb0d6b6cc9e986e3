"""Asks a recorded trace for what a replay cannot do without."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from parity.trace import Trace, TraceError

REQUIRED_FACTS = ("towers", "optimizer")


def require_facts(trace: Trace, facts: Mapping[str, Any]) -> None:
    """Refuses a trace without a fact that every replay reads.

    Args:
      trace: the recording.
      facts: of one of its parts.

    Raises:
      TraceError: one is missing.
    """
    for name in REQUIRED_FACTS:
        if facts.get(name) is None:
            raise TraceError(f"replay: expected the fact {name!r} in {trace.directory}, got none. Record it again.")


def number_of(value: Any, what: str, trace: Trace) -> float:
    """Returns the one number that a trace holds of something.

    Args:
      value: as it was read: a JSON value, or an array.
      what: it is, for the message.
      trace: the recording.

    Raises:
      TraceError: it is none, or several.
    """
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TraceError(
            f"replay: expected one number as the {what} in {trace.directory}, got another. Record it again."
        )
    return float(array.reshape(()))
