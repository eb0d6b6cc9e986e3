"""The one judging loop: pairs of tensors in execution order, prechecked, measured, and held against an allowance."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from parity.judge.metrics import distance, is_constant, is_finite, norm, unit_roundoff
from parity.judge.result import Check, Verdict
from parity.mapping.trace_map import OPTIONAL
from parity.trace import TensorKey
from parity.trace.arrays import Array
from parity.trace.checksum import Part

# Written once for both sides, so that any difference is one of reading: compared to the bit.
FED = frozenset(["feed", "noise"])  # both sides are given them
# Known by its words to `unmatched_slots`, which sets some of these aside.
NOT_IN_REFERENCE = "the reference has no such tensor"
Comparison = Literal["norm", "exact", "counter", "form"]


def no_rounding() -> Sequence[float | None]:
    """Returns nothing: no distances of runs that differ by rounding alone are known."""
    return ()


class TensorPair(NamedTuple):
    """One tensor of one step on both sides, in the reference's layout.

    Fields:
      step: its number.
      key, text: its name in the reference's trace, taken apart and as it stands there.
      reference, candidate: float arrays of one shape and dtype, unless the precheck finds otherwise.
      before: the reference's value before the step where the update is judged, for weights, statistics and averages.
      compare: "norm", by the norm of the difference; "exact", bit for bit; "counter", once rounded to float32, which is what
        TensorFlow's graph holds; "form", by presence, shape and dtype alone.
      rounding: returns distances of runs that differ by rounding alone, as the level's allowance takes them; None where one
        is no number. Asked only where the pair is measured.
      parts: what wants to hear how many bytes of the arrays were read.
    """

    step: int
    key: TensorKey
    text: str
    reference: Array
    candidate: Array
    before: Array | None = None
    compare: Comparison = "norm"
    rounding: Callable[[], Sequence[float | None]] = no_rounding
    parts: Sequence[Part] = ()


class Missing(NamedTuple):
    """A tensor that one side lacks, or that is not judged: its step, its name in the reference's trace, and why."""

    step: int
    text: str
    note: str
    verdict: Verdict = "incomparable"
    difference: float = float("inf")


class Norms(NamedTuple):
    """Euclidean norms of a pair.

    Fields:
      size: of the reference.
      difference: of candidate minus reference.
      moved: of the reference minus what it was before, or its size where that is not asked for.
      constant: whether all elements of the reference are one number, and there are several.
    """

    size: float
    difference: float
    moved: float
    constant: bool = False


class MeasuredPair(NamedTuple):
    """What an allowance needs to know of a pair: numbers alone.

    Fields:
      step, key, text: which tensor of which step.
      size: ``|T|``, norm of the reference.
      difference: ``|P - T|``, norm of candidate minus reference.
      moved: ``|dT|``, norm of the reference's update where that is judged, else ``|T|``.
      updated: whether the update is judged.
      unit: ``u``, the unit roundoff of the tensor's dtype, 0 of integers.
      elements: their number.
      constant: whether all elements of the reference are one number, and there are several.
      rounding: distances of runs that differ by rounding alone, those that are numbers.
      unknown: whether such distances were asked for and none is a number.
    """

    step: int
    key: TensorKey
    text: str
    size: float
    difference: float
    moved: float
    updated: bool = False
    unit: float = 0.0
    elements: int = 1
    constant: bool = False
    rounding: tuple[float, ...] = ()
    unknown: bool = False


class Allowed(NamedTuple):
    """How far apart rounding alone may bring a pair.

    Fields:
      limit: largest difference that counts as rounding.
      scale: the size of what was summed or updated, for a difference in units of it.
      beyond: the verdict on a larger difference.
      note: what a check beyond the limit says.
    """

    limit: float
    scale: float
    beyond: Verdict = "different"
    note: str = ""


class Allowance(Protocol):
    """Says what rounding explains, by level: see `parity.judge.allowances`."""

    def __call__(self, pair: MeasuredPair, /) -> Allowed:
        """Returns the largest difference that counts as rounding."""


Measure = Callable[[TensorPair], Norms | None]


def judge(run: str, pairs: Iterable[TensorPair | Missing], allowance: Allowance) -> list[Check]:
    """Judges tensors in execution order.

    Presence is checked before shape and dtype, these before values: a missing tensor is never reported as a number.

    Args:
      run: "init", "lockstep" or "free".
      pairs: in execution order; `Missing` for what one side lacks.
      allowance: largest distance that rounding explains, by level.
    """
    return [allow(run, found, allowance) for found in measure(run, pairs)]


def measure(
    run: str, pairs: Iterable[TensorPair | Missing], norms: "Measure | None" = None
) -> Iterator[Check | MeasuredPair]:
    """Yields the check of each pair that the precheck decides, and the numbers of each that it does not.

    Args:
      run: as in `judge`.
      pairs: as in `judge`.
      norms: returns the norms of a pair, None where something in it is not finite; by default `float64_norms`.
    """
    # By default exact to 1e-15; two bare traces of gigabytes are measured in one pass, to 1e-7.
    measured = norms or float64_norms
    for pair in pairs:
        # Presence first, then shape and dtype, then numbers: a norm of what is not there would look like a difference.
        if isinstance(pair, Missing):
            yield Check(run, pair.step, pair.text, pair.verdict, pair.difference, note=pair.note)
            continue
        check = precheck(run, pair)
        # Asking whether all is finite reads both arrays once more, so that it is asked only of a pair without norms.
        found = measured(pair) if check is None and pair.compare == "norm" else None
        # Also of "exact" pairs: integers are always finite, and of float feeds NaN is told before their bits are.
        if check is None and found is None:
            check = check_finite(run, pair)
        if check is None and pair.compare == "exact":
            check = exact_check(run, pair.step, pair.text, pair.reference, pair.candidate)
        if check is not None:
            yield check
        elif found is not None:
            yield _numbers(pair, found)


def allow(run: str, found: Check | MeasuredPair, allowance: Allowance) -> Check:
    """Returns the check of a pair whose difference is held against its allowance; one that there is stays."""
    if isinstance(found, Check):
        return found
    limit, scale, beyond, note = allowance(found)
    # Every difference is within an infinite limit, as of an update from a state that is not finite: that proves nothing.
    if not np.isfinite(limit):
        beyond, note = "incomparable", "what rounding does to it is not finite"
    same = found.difference <= limit < np.inf  # NaN is not
    # What rounding cannot be foretold for is "incomparable" beyond its limit, never "same".
    verdict: Verdict = "same" if same else beyond
    known = (found.difference, limit, scale, found.size, "" if same else note, found.constant)
    return Check(run, found.step, found.text, verdict, *known)


def first_beyond(run: str, pairs: Iterable[TensorPair], allowance: Allowance) -> tuple[Check, TensorPair] | None:
    """Returns the first of pairs of one shape whose difference is beyond its allowance, or None.

    Nothing is prechecked, and a difference that is NaN is passed over.
    """
    for pair in pairs:
        # Invariant: all pairs before this one are within their allowances.
        check = allow(run, _numbers(pair, unchecked_norms(pair)), allowance)
        if check.difference > check.allowed:  # NaN is not
            return check, pair
    return None


def _numbers(pair: TensorPair, norms: Norms) -> MeasuredPair:
    # Here and not before: eT and eP take two more files to be read, which a pair that is decided by its shape spares.
    asked = pair.rounding()
    # A run that was not finite foretells nothing; the others still do, and only where none does is it unknown.
    rounding = tuple(each for each in asked if each is not None)
    one = pair.reference
    # u of the reference; the precheck has refused pairs of two float types.
    unit = unit_roundoff(one.dtype) if one.dtype.kind == "f" else 0.0
    return MeasuredPair(
        pair.step,
        pair.key,
        pair.text,
        norms.size,
        norms.difference,
        norms.moved,
        pair.before is not None,
        unit,
        one.size,
        norms.constant,
        rounding,
        bool(asked) and not rounding,
    )


def float64_norms(pair: TensorPair) -> Norms | None:
    """Returns the norms of a pair, summed in float64, or None where one of the sides is not finite."""
    return unchecked_norms(pair) if is_finite(pair.reference) and is_finite(pair.candidate) else None


def unchecked_norms(pair: TensorPair) -> Norms:
    """Returns the norms of a pair of one shape, summed in float64; NaN or infinite where something in it is not finite."""
    one, before = pair.reference, pair.before
    size = norm(one)
    # |dT| is of the reference on purpose: a candidate that moves too far must not be allowed more for it.
    moved = size if before is None else distance(one, before)
    return Norms(size, distance(one, pair.candidate), moved, is_constant(one))


# What is checked before any number.


def comparison(key: TensorKey, reference: Array) -> Comparison:
    """Returns how a tensor is compared in float64: counters and what both sides are given exactly, and integers too."""
    if key.quantity in OPTIONAL:
        return "counter"
    # Integers are what an index or label is: one off by 1 is another row.
    return "exact" if key.quantity in FED or reference.dtype.kind != "f" else "norm"


def missing(step: int, key: TensorKey, text: str, unobserved: Collection[str] = ()) -> Missing:
    """Returns what is said of a tensor that the candidate lacks.

    Args:
      step: its number.
      key: its name.
      text: the same as it stands in the reference's trace.
      unobserved: quantities that the port's own step does not show.
    """
    if key.quantity in OPTIONAL:
        return Missing(step, text, "the candidate keeps no such counter", "not_run", 0.0)
    # A port's own step hides its parts: what comes of them, weights and slots, is still judged.
    if key.quantity in unobserved:
        return Missing(step, text, "the candidate's own step does not show it", "not_run", 0.0)
    return Missing(step, text, "the candidate has no such tensor")


def precheck(run: str, pair: TensorPair) -> Check | None:
    """Returns the check of a pair that needs no measuring: a counter, another shape, another dtype; else None."""
    one, other = pair.reference, pair.candidate
    if pair.compare == "counter":
        # TensorFlow holds the step count as int64 and the rate as float32, torch as Python numbers: one type for both.
        rounded = (np.asarray(np.float32(value)) for value in (one, other))
        return exact_check(run, pair.step, pair.text, *rounded)
    kinds = one.dtype.kind, other.dtype.kind
    if one.shape != other.shape:
        note = f"shape {other.shape} where {one.shape} is expected"
    # TensorFlow has labels in int32 where torch wants int64: numbers decide. Float32 for float64 is another program.
    elif kinds[0] != kinds[1] or (kinds[0] == "f" and one.dtype != other.dtype):
        note = f"dtype {other.dtype} where {one.dtype} is expected"
    else:
        return None
    return Check(run, pair.step, pair.text, "different", float("inf"), note=note)


def check_finite(run: str, pair: TensorPair) -> Check | None:
    """Returns the check of a pair in which something is not finite, else None.

    On one side only, or at another place, that is different; at the same places on both sides incomparable.
    """
    one, other = np.isfinite(pair.reference), np.isfinite(pair.candidate)
    if one.all() and other.all():
        return None
    # The same places on both sides: both overflow, and what they would have differed by is lost.
    if np.array_equal(one, other):
        note = f"{int((~one).sum())} of {one.size} values are not finite, on both sides"
        return Check(run, pair.step, pair.text, "incomparable", float("inf"), note=note)
    # Which side broke is what a reader looks for first.
    whose = "the candidate" if one.all() else "the reference" if other.all() else "both sides, at different places"
    return Check(run, pair.step, pair.text, "different", float("inf"), note=f"values that are not finite in {whose}")


def exact_check(run: str, step: int, text: str, reference: Array, candidate: Array) -> Check:
    """Returns the check of what must be equal bit for bit: feeds, integers, counters."""
    equal = np.array_equal(reference, candidate)
    # Integers beyond 2^53 may round here: the difference is only shown, `equal` has decided.
    difference, size = 0.0 if equal else distance(reference, candidate), norm(reference)
    return Check(run, step, text, "same" if equal else "different", difference, 0.0, size, size)


def rounding_between(single: Array | None, double: Array | None) -> float | None:
    """Returns how far apart rounding brings two runs of one side, or None where that is no number.

    Args:
      single: of its float32 run, None where that has none.
      double: of its float64 run, or another of its float32 ones, likewise.
    """
    # A tensor that one precision lacks tells nothing of rounding: 0 adds nothing to the allowance, where None says not
    # finite.
    if single is None or double is None or single.shape != double.shape:
        return 0.0
    # Subtracted in float64, so that float32's own rounding is what is measured, not that of the subtraction.
    found = distance(single, double)
    return found if np.isfinite(found) else None
