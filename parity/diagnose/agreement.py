"""Whether numbers agree with a hypothesis: the tolerances that all share, factors, fits, and what they explain."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.judge.metrics import is_finite, norm
from parity.judge.result import Explained, FirstDifference
from parity.trace.arrays import Array

# Tolerances that all hypotheses share, relative to a norm. tests/parity/diagnose/test_limits_of_causes.py holds each just
# inside and just outside.

# Of float64 traces. Gradients of right ports are 9e-15 apart in three layers and 5.8e-12 in 40 layers of convolution,
# batch norm and ReLU; the faintest bugs known move theirs by more than 1e-7.
CLOSE = 1e-9
# Of float32 traces, which is all that `parity compare` may have: gradients of right ports are at most 2.3e-6 apart in
# three layers; in twelve, where rounding switches a ReLU, 1e-3, and no cause is told from them.
CLOSE32 = 1e-4
# Of losses that the graph computes in float32 though it is fed float64: u32 = 6e-8 for each of some ten operations.
CLOSE_SINGLE = 1e-6
# Of a difference, by a hypothesis that explains it. Chosen: a second bug of a thousandth of the first still shows.
LEFT = 1e-3
# Of what one layer or term gives, computed again from what was recorded of its inputs: in float64 a sum of a million
# products rounds by sqrt(n) u = 1e-13, a decade and more below this.
CLOSE_OUTPUT = 1e-10
ALIKE = 1e-6  # numbers that count as one: losses of towers that saw the same examples, a bias with one initial value
ROUNDING = 1e-14  # of float64 values computed another way: 90 u64 (1.1e-16), as sqrt(n) u of a sum of n = 8,000
# Of the largest gradient of a step: zero but for rounding, as in front of a batch norm, where float64 leaves 1e-16 of
# the others' scale and float32 7e-8.
EMPTY_GRADIENT = 1e-8


class Fit(NamedTuple):
    """A target as a combination of columns.

    Fields:
      coefficients: one for each column.
      residual: norm of what is left, over the norm of the target.
    """

    coefficients: tuple[float, ...]
    residual: float


def least_squares(matrix: Array, target: Array) -> Array | None:
    """Returns the coefficients of columns whose combination is nearest to a target; None where there are no single ones.

    There are none of numbers that are not finite, of which numpy's decomposition would not converge.

    Args:
      matrix: (elements, columns).
      target: (elements,).
    """
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(matrix, axis=0)
        scaled = matrix / lengths
    # Looked at once scaled: a column of the smallest numbers, or one of zeros, is finite before it.
    if not (is_finite(scaled) and is_finite(target)):
        return None
    # Columns are scaled to one length first, so that the cut-off of singular values, 1e-9 of the largest, means columns
    # that are parallel to nine digits: their shares cannot be told apart.
    found, _, rank, _ = np.linalg.lstsq(scaled, target, rcond=1e-9)
    return found / lengths if rank == matrix.shape[1] else None


def fit(columns: Sequence[Sequence[Array]], targets: Sequence[Array]) -> Fit | None:
    """Fits tensors by one combination of columns for all of them, or returns None where that cannot be told.

    Args:
      columns: for each tensor its columns, arrays of the tensor's shape.
      targets: the tensors.
    """
    if not targets:
        return None
    matrix = np.concatenate([np.stack([part.reshape(-1) for part in each], axis=1) for each in columns])
    target = np.concatenate([each.reshape(-1) for each in targets])
    if not norm(target) > 0.0 or len(target) <= matrix.shape[1]:
        return None
    # min |M c - y| over the elements of all tensors.
    coefficients = least_squares(matrix, target)
    if coefficients is None:
        return None
    return Fit(tuple(float(each) for each in coefficients), norm(target - matrix @ coefficients) / norm(target))


def common_factor(pairs: list[tuple[Array, Array]], close: float = CLOSE) -> float | None:
    """Returns the factor that turns every reference into its candidate, or None where no single one does.

    Tensors that are zero but for rounding say nothing and are left out.
    """
    telling = _telling(pairs)
    if not telling:
        return None
    # The least squares over all tensors at once: f = sum <x, y> / sum <x, x>; each of them has to follow it by itself.
    square = sum(float(np.vdot(one, one)) for one, _ in telling)
    factor = sum(float(np.vdot(one, other)) for one, other in telling) / square
    if all(norm(other - factor * one) <= close * norm(one) * abs(factor) for one, other in telling):
        return factor
    return None


def told_factor(pairs: list[tuple[Array, Array]], close: float = CLOSE) -> float | None:
    """Returns a common factor other than 1, or None where what it leaves is not small beside what differs.

    Numbers that are alike tell none: whatever they become, there is a number that they are multiplied by.
    """
    factor, telling = common_factor(pairs, close), _telling(pairs)
    if factor is None or rounds_to_one(factor) or alike([one for one, _ in telling]):
        return None
    # Rounding is no factor, and a factor of rounding would explain all of it.
    if all(norm(other - one) <= ROUNDING * norm(one) for one, other in telling):
        return None
    return factor if all(explained(other - factor * one, other - one, one) for one, other in telling) else None


def rounds_to_one(factor: float) -> bool:
    """Returns whether a factor is 1 in the six digits that a cause is named with: then it says nothing."""
    return f"{factor:.6g}" == "1"


def alike(values: Sequence[Array]) -> bool:
    """Returns whether some arrays hold no two numbers that differ by more than a millionth."""
    least = min((float(each.min()) for each in values if each.size), default=0.0)
    largest = max((float(each.max()) for each in values if each.size), default=0.0)
    return largest - least <= ALIKE * max(abs(least), abs(largest))


def _telling(pairs: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    # What is zero but for rounding has no factor: noise over noise.
    largest = max((norm(one) for one, _ in pairs), default=0.0)
    return [(one, other) for one, other in pairs if norm(one) > EMPTY_GRADIENT * largest]


def explained(left: Array, apart: Array, size: Array) -> bool:
    """Returns whether a hypothesis explains a difference: |left| <= LEFT |apart| + ROUNDING |size|.

    To be close to the values is not enough: where a bug is small, everything is.

    Args:
      left: what the hypothesis leaves, float64 of any shape.
      apart: what differs, of that shape.
      size: the values.
    """
    return norm(left) <= LEFT * norm(apart) + ROUNDING * norm(size) < math.inf


def share_explained(first: FirstDifference, parts: Iterable[tuple[Array, Array, Array]]) -> Explained:
    """Returns what part of a difference, here and in the other tensors that it is seen in, a hypothesis explains.

    Args:
      first: the difference.
      parts: for each tensor what the hypothesis makes of it, the candidate's and the reference's.
    """
    told = [(other - made, other - one) for made, other, one in parts]
    # Norms over all tensors together: sqrt(sum |x_i|^2), so that a small tensor counts by what it holds.
    left, apart = (float(np.sqrt(sum(norm(each[place]) ** 2 for each in told))) for place in (0, 1))
    share = max(0.0, 1.0 - left / apart) if apart > 0.0 else 0.0
    return Explained(first.check.step, first.check.key, share)


def explained_together(parts: Iterable[tuple[Array, Array, Array]]) -> bool:
    """Returns whether a hypothesis explains what differs in several tensors taken together.

    Args:
      parts: for each tensor what the hypothesis makes of it, the candidate's and the reference's.
    """
    told = [(other - made, other - one, one) for made, other, one in parts]
    left, apart, size = (np.sqrt(sum(norm(each[place]) ** 2 for each in told)) for place in range(3))
    return bool(left <= LEFT * apart + ROUNDING * size < math.inf)


def is_close(one: float, other: float, close: float = CLOSE) -> bool:
    """Returns whether two factors are the same but for rounding."""
    return abs(one - other) <= close * abs(other)


def same_values(one: Array, other: Array, close: float = CLOSE) -> bool:
    """Returns whether two arrays are equal but for rounding; what is not finite has to be the same, as -inf of a mask."""
    if one.shape != other.shape:
        return False
    finite = np.isfinite(one)
    if not finite.all():
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return False
        one, other = one[finite], other[finite]
    return bool(norm(one - other) <= close * norm(one))


def same_in_order(reference: Any, candidate: Any, close: float = CLOSE) -> bool:
    """Returns whether two arrays or numbers, of whatever shapes, are the same one after the other; False for what is none.

    What is not finite has to stand in the same places, and does not count.
    """
    arrays = [np.asarray(each) for each in (reference, candidate)]
    if arrays[0].size != arrays[1].size or any(each.dtype.kind not in "fiub" for each in arrays):
        return False
    one, other = (each.astype(np.float64).reshape(-1) for each in arrays)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    return bool(norm(one[finite] - other[finite]) <= close * norm(one[finite]))


def reproduces(made: Array, reference: Array, candidate: Array) -> bool:
    """Returns whether an array is the candidate's: what it leaves is rounding, and small beside what differs."""
    if made.shape != candidate.shape:
        return False
    finite = np.isfinite(candidate)
    if not finite.all():
        # An infinite size allows anything: of what is not finite, as -inf of a mask, nothing is measured.
        if not np.array_equal(made[~finite], candidate[~finite], equal_nan=True):
            return False
        made, reference, candidate = made[finite], reference[finite], candidate[finite]
    left, apart = norm(made - candidate), norm(reference - candidate)
    return bool(left <= LEFT * apart and left <= CLOSE * norm(candidate))
