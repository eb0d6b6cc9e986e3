"""Judges one pair of arrays, before any number: presence, shape, dtype, finiteness."""

from collections.abc import Collection
from math import isfinite

import numpy as np

from parity.judge.numbers import Array, distance
from parity.judge.result import Check, Verdict
from parity.trace import parse_key

EXACT = frozenset(["feed", "noise"])
NOT_IN_REFERENCE = "the reference has no such tensor"


def refuse(
    run: str, step: int, text: str, reference: Array, candidate: Array | None, unobserved: Collection[str] = ()
) -> Check | None:
    """Returns a check for a pair that needs no measuring, or None for one that does.

    A tensor that the candidate lacks is incomparable, but not run where it is of an `unobserved` quantity, which the port's
    own step does not show; another shape or dtype is different; a value that is not finite on one side only, or at another
    place, is different, and at the same places on both sides incomparable.
    """

    def checked(verdict: Verdict, note: str) -> Check:
        return Check(run, step, text, verdict, float("inf"), 0.0, note=note)

    if candidate is None and parse_key(text).quantity in unobserved:
        return Check(run, step, text, "not_run", note="the candidate's own step does not show it")
    if candidate is None:
        return checked("incomparable", "the candidate has no such tensor")
    if reference.shape != candidate.shape:
        return checked("different", f"shape {candidate.shape} where {reference.shape} is expected")
    if reference.dtype.kind != candidate.dtype.kind or (
        reference.dtype.kind == "f" and reference.dtype != candidate.dtype
    ):
        return checked("different", f"dtype {candidate.dtype} where {reference.dtype} is expected")
    if reference.dtype.kind != "f":
        return None
    one, other = np.isfinite(reference), np.isfinite(candidate)
    if one.all() and other.all():
        return None
    if np.array_equal(one, other):
        return checked("incomparable", f"{int((~one).sum())} of {one.size} values are not finite, on both sides")
    whose = "the candidate" if one.all() else "the reference" if other.all() else "both sides, at different places"
    return checked("different", f"values that are not finite in {whose}")


def rounding_of(single: Array | None, double: Array | None) -> float | None:
    """Returns how far a side's float32 is from its own float64, or None where that is no number.

    Args:
      single: of its float32 run, None where that has none.
      double: of its float64 run, or another of its float32 ones, likewise.
    """
    if single is None or double is None or single.shape != double.shape:
        return 0.0
    found = distance(single, double)
    return found if isfinite(found) else None


def judge_exact(run: str, step: int, text: str, reference: Array, candidate: Array) -> Check:
    """Judges what must be equal bit for bit: feeds, integers, counters."""
    equal = np.array_equal(reference, candidate)
    apart = np.asarray(reference, dtype=np.float64) - np.asarray(candidate, dtype=np.float64)
    difference = 0.0 if equal else float(np.sqrt(np.sum(np.square(apart))))
    size = float(np.sqrt(np.sum(np.square(np.asarray(reference, dtype=np.float64)))))
    return Check(run, step, text, "same" if equal else "different", difference, 0.0, size, size)
