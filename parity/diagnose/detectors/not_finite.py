"""Values that are infinite or no numbers: on which side, where first, and what of that step is finite before them."""

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import is_finite
from parity.judge.result import Cause, FirstDifference
from parity.trace import parse_key
from parity.trace.arrays import Array


def not_finite(first: FirstDifference, evidence: Evidence) -> Cause | None:
    """One side has an infinite value, or none that is a number, where the other side's is finite."""
    file, key = evidence.reference.step(first.check.step), first.check.key
    if first.check.step not in evidence.steps or key not in file:
        return None  # what the candidate alone has, goes by its own name
    one = file.read(key)
    # Numbers of any other kind are counters or indices, which cannot be infinite.
    other = evidence.join.read(parse_key(key), evidence.candidate.step(first.check.step))
    if other is None or one.shape != other.shape or one.dtype.kind != "f" or other.dtype.kind != "f":
        return None
    # Both sides in the same places: an overflow that the reference has too is none of the port's.
    wrong = [(who, value) for who, value in (("reference", one), ("candidate", other)) if not is_finite(value)]
    if not wrong or np.array_equal(np.isfinite(one), np.isfinite(other)):
        return None
    told = " and ".join(f"the {who}'s {key} is {_what(value)}" for who, value in wrong)
    count = "; ".join(f"{who}: {int((~np.isfinite(value)).sum())} of {value.size} values" for who, value in wrong)
    return build_cause(
        "not_finite",
        first.quantity if first.quantity in ("loss", "tower_grad") else "",
        evidence=f"{count} are not finite, and all that was compared before them agrees",
        told=told,
        step=first.check.step,
    )


def _what(value: Array) -> str:
    flat = np.asarray(value, np.float64).reshape(-1)
    worst = flat[~np.isfinite(flat)][0]
    return "not a number" if np.isnan(worst) else "infinite"
