"""Fits rules to numbers: narrower floats, dropout's shares, and least squares to the elements that follow a rule."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import LEFT, least_squares
from parity.judge.metrics import is_finite, norm
from parity.trace.arrays import Array

BITS = {"bfloat16": 8, "float16": 11, "float32": 24}  # of the mantissa, the leading one among them: u = 2^-bits
# Of a tensor: bfloat16 rounds by up to 2^-8 = 0.004 of it, so that more is beyond 12 roundings that add up.
MOST_BY_ROUNDING = 0.05
FEW_DIGITS, NEAR_SHORT = 4, 1e-9  # of numbers in source, and how near to one what is found comes, relative
SPARE = 3  # bits: of values rounded at random one in 2^3 leaves these unused, far fewer than half


def is_written(number: float) -> bool:
    """Returns whether somebody would write a number: it, or one over it, has few digits, as 255, 0.0625 and 127.5 have."""
    return any(
        abs(each - float(f"{each:.{FEW_DIGITS}g}")) <= NEAR_SHORT * abs(each)
        for each in (number, 1 / number if number else 0.0)
    )


def narrow_format(values: Array, others: Array) -> str:
    """Returns the narrowest float that all of `values` fit and `others` do not; "" where there is none.

    Ones and halves fit any float without having been rounded to it: half of the values at least have to use its last bits.

    Args:
      values: any shape, float64.
      others: what they are compared with: values that fit anyhow, such as zeros and ones, say nothing.
    """
    # The narrowest first: what fits bfloat16 fits float16 and float32 as well.
    told = values[values != 0]
    for name, bits in BITS.items():
        if told.size and _fitting(told, bits) == 1.0 and _fitting(others, bits) < 1.0:
            return name if _fitting(told, bits - SPARE) <= 0.5 else ""
    return ""


def _fitting(values: Array, bits: int) -> float:
    # v = m 2^e with 1/2 <= |m| < 1 fits b bits of mantissa where m 2^b is whole; the range of exponents is not asked.
    mantissa, _ = np.frexp(values)
    return float((np.ldexp(mantissa, bits) % 1 == 0).mean())


SIGMAS = 4  # of the binomial law: a right share lies outside once in 16,000 draws
# Whole maps or rows. Of 16 at p = 1/2 four deviations are 4 sqrt(p (1 - p) / 16) = 1/2: of fewer any share is likely.
FEWEST_MAPS = 16


def as_dropout_keeps(kept: Array, dropped: Array, probability: float) -> bool:
    """Returns whether the values kept are about as many as a probability says, of single values or of whole maps or rows.

    Args:
      kept: bool ``[examples, ..., channels]``.
      dropped: bool of the same shape; what was zero anyway is neither.
      probability: of a value to be kept.
    """
    # Dropout may keep whole examples, whole maps or single values: the coarsest that is wholly kept or dropped is tested.
    inner = tuple(range(1, kept.ndim - 1))
    for axes in (tuple(range(1, kept.ndim)), inner) if inner else (tuple(range(1, kept.ndim)),):
        some, none = kept.any(axis=axes), dropped.any(axis=axes)
        if not (some & none).any():
            count = int((some | none).sum())
            return count >= FEWEST_MAPS and likely_share(float(some.sum() / count), probability, count)
    count = int(kept.sum() + dropped.sum())
    return likely_share(float(kept.sum() / count), probability, count)


def likely_share(share: float, probability: float, count: int) -> bool:
    """Returns whether a share of independent draws lies within four standard deviations of their probability."""
    # A share of n draws has the standard deviation sqrt(p (1 - p) / n).
    return abs(share - probability) <= SIGMAS * float(np.sqrt(probability * (1 - probability) / max(count, 1)))


# Tolerances of fits, relative. All lie between what rounding leaves of float64 traces, whose gradients are 1e-14 apart
# in right ports of few layers and 6e-12 in those of 40, and the faintest bugs known: 1.6e-7 of a step by
# hyper-parameters not rounded to float32, 8e-7 by torch's clip / (norm + 1e-6). Each cancellation on the way, such as a
# slot that is divided by 1 - beta = 0.001, moves rounding up by as many decades as it takes away.

RESIDUAL_OF_RULE = 1e-7  # of a slot or an update, by the rule of an optimizer that is fitted to it
CLOSE_DERIVED = 1e-6  # of gradients, factors and shares derived from a slot: a subtraction and a division further away
# of settings solved for: a rate or an epsilon is one term of the rule, and holds what all others leave
CLOSE_SOLVED = 1e-5
# Elements: of so few, limits and empty rows may leave none to fit; a tensor without a rule then refutes nothing.
FEW_ELEMENTS = 16
FREEDOM = 2  # elements more than columns: as many as columns are fitted by anything


def different_numbers(values: Array) -> int:
    """Returns how many different numbers an array holds: the same few in other places say nothing of where they were."""
    # `unique` sorts, 0.4 s for a million numbers: 65,536 of them show as many as are ever asked for.
    return len(np.unique(values.reshape(-1)[: 1 << 16]))


class Partly(NamedTuple):
    """A tensor as a combination of columns, but for elements that something else was done to.

    Fields:
      coefficients: one for each column.
      residual: norm of what is left over the norm of the target, of the elements that follow.
      limit: the size at which the others are cut off; 0 where none is.
      empty: the rows (places along the first axis) that are zero where the combination is not.
    """

    coefficients: tuple[float, ...]
    residual: float
    limit: float = 0.0
    empty: tuple[int, ...] = ()


def fit_partly(columns: Sequence[Array], target: Array, close: float = CLOSE_DERIVED) -> Partly | None:
    """Fits one tensor by a combination of columns, or returns None where none is within `close`.

    All elements are tried first, then those that are not at the largest size, then those of the rows that are not zero.
    An element left out has to be what its reason says: at the limit with the combination beyond it, or zero.

    Args:
      columns: arrays of the tensor's shape.
      target: the tensor.
      close: the largest residual that counts as a fit.
    """
    whole = _solve([each.reshape(-1) for each in columns], target.reshape(-1))
    if whole is not None and whole.residual <= close:
        return whole
    return _cut_off(columns, target, close) or _without_rows(columns, target, close)


def counts(found: Partly, places: Sequence[int], columns: Sequence[Array], target: Array) -> bool:
    """Returns whether some columns of a fit put in far more than the fit leaves: to noise any column brings it nearer.

    Args:
      found: the fit.
      places: of the columns asked about.
      columns: all that it has.
      target: what it fits.
    """
    left = found.residual * norm(target)
    return all(left <= LEFT * abs(found.coefficients[place]) * norm(columns[place]) for place in places)


def _cut_off(columns: Sequence[Array], target: Array, close: float) -> Partly | None:
    limits = _sizes_in_common(np.abs(target))
    if not limits:
        return None
    size = np.zeros(target.shape)
    for limit in limits:
        # Clipped elements are the limit to the last bit or two; 1e-9 is how sizes are counted as one below.
        size[np.abs(np.abs(target) - limit) <= 1e-9 * limits[0]] = limit
    below = size == 0.0
    found = _solve([each[below] for each in columns], target[below])
    if found is None or found.residual > close:
        return None
    beyond = sum(share * each[~below] for share, each in zip(found.coefficients, columns, strict=True))
    signed = np.asarray(beyond) * np.sign(target[~below])
    return found._replace(limit=limits[0]) if (signed >= size[~below] * (1 - 10 * close)).all() else None


def _sizes_in_common(sizes: Array) -> list[float]:
    # One element is always the largest: only several of one size tell of a limit. One variable of the reference may be
    # two of the candidate, each with a limit of its own.
    largest = float(sizes.max(initial=0.0))
    if largest == 0.0:
        return []
    values, counts = np.unique(np.round(sizes / largest, 9), return_counts=True)
    common = [float(value) * largest for value, count in zip(values, counts, strict=True) if count > 1 and value > 0.0]
    return sorted(common, reverse=True)[:2]


def _without_rows(columns: Sequence[Array], target: Array, close: float) -> Partly | None:
    if target.ndim < 2:
        return None
    # (rows,): whether a row has any number; empty ones count where a column is not empty there.
    rows = target.reshape(len(target), -1).any(axis=1)
    empty = [row for row in np.flatnonzero(~rows) if any(each[row].any() for each in columns)]
    if not empty or not rows.any():
        return None
    found = _solve([each[rows].reshape(-1) for each in columns], target[rows].reshape(-1))
    return found._replace(empty=tuple(int(row) for row in empty)) if found and found.residual <= close else None


def _solve(columns: Sequence[Array], target: Array) -> Partly | None:
    # (elements, columns)
    matrix = np.stack(columns, axis=1)
    if not is_finite(matrix) or not np.any(matrix, axis=0).all() or len(target) < len(columns) + FREEDOM:
        return None
    # Of a target of zeros the residual over its norm is 0 / 0, and no share of any column is a fit.
    if not target.any():
        return Partly((0.0,) * len(columns), 0.0)
    found = least_squares(matrix, target)
    if found is None:
        return None
    return Partly(tuple(float(each) for each in found), norm(target - matrix @ found) / norm(target))
