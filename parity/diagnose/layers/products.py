"""Products with matrices: flattened in another order, transposed, or with the right numbers in other places."""

from collections.abc import Collection, Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE_OUTPUT, reproduces, same_values
from parity.diagnose.catalogue import build_cause
from parity.judge.result import Cause
from parity.locate.layouts import MOST_ALIGNED
from parity.trace.arrays import Array

INNER_AXES = {3: ("steps", "units"), 4: ("rows", "columns", "channels")}  # behind the examples, by the number of all


class Product(NamedTuple):
    """A product with a matrix whose output differs, though what goes in and the matrix do not.

    Fields:
      name: of its layer.
      given: ``[n, ...]``, what goes in before it is flattened.
      matrix: ``[d, out]``.
      reference, candidate: ``[..., out]``, what comes out, with or without a bias.
    """

    name: str
    given: Array
    matrix: Array
    reference: Array
    candidate: Array


def other_product(product: Product) -> Cause | None:
    """Returns the cause where the product taken otherwise gives the candidate's output, or None."""
    wide = product.matrix.shape[1]
    if (
        product.matrix.ndim != 2
        or product.reference.shape[-1:] != (wide,)
        or product.given.size % product.matrix.shape[0]
    ):
        return None
    wanted, got = (each.reshape(-1, wide) for each in (product.reference, product.candidate))  # (rows, out)
    own = product.given.reshape(-1, product.matrix.shape[0])  # (rows, d)
    if len(own) != len(wanted):
        return None
    # What x W leaves of the reference has to be one vector in every row, its bias: else the op is no x W + b.
    bias = (wanted - own @ product.matrix).mean(axis=0)  # (out,)
    if not same_values(wanted, own @ product.matrix + bias):
        return None
    for way in _ways(product, own):
        if reproduces(way.made + bias, wanted, got):
            text = "computed so from what goes in, which is the same on both sides, it gives the candidate's output"
            return build_cause(way.name, way.variant, evidence=text, layer=product.name, **way.words)
    return None


class _Way(NamedTuple):
    """A product taken otherwise: the cause's name and wording, what its text says, and what comes out without a bias."""

    name: str
    variant: str
    words: dict[str, Any]
    made: Array


def _ways(product: Product, own: Array) -> Iterator[_Way]:
    given, matrix = product.given, product.matrix
    names = INNER_AXES.get(given.ndim, ())
    # Only where an example as a whole is flattened to the d of the matrix.
    if names and given[0].size == len(matrix):
        for order in list(permutations(range(len(names))))[1:]:  # without the order as it is
            flat = given.transpose(0, *(1 + axis for axis in order)).reshape(own.shape)
            there, here = (", ".join(each) for each in ([names[axis] for axis in order], names))
            words: dict[str, Any] = {"there": there, "here": here}
            # torch's flatten of an image: the one other order that a transform of the mapping names.
            torchs = len(names) == 3 and order == (2, 0, 1)
            words.update(zip("hwc", given.shape[1:], strict=True) if torchs else ())
            yield _Way("flatten_order", "torch" if torchs else "product", words, flat @ matrix)
    yield _Way("reversed_input", "product", {}, own[:, ::-1] @ matrix)
    if matrix.shape[0] == matrix.shape[1]:
        # A square kernel that was carried over untransposed fits, and nothing else tells.
        yield _Way("transposed_kernel", "product", {}, own @ matrix.T)


# What goes into an op holds the right numbers in other places: other rows of a table, channels in another order.

MOST_RUNS_SHOWN = 4
FEWEST_IN_A_ROW = 2  # one number in a row is a value, and may be any row's
FEWEST_CHANNELS_ORDERED = 4  # of three channels one order in six is the right one by chance


def other_rows(name: str, table: Array, wanted: Array, beyond: Sequence[Array]) -> Cause | None:
    """Returns the cause where the candidate looks up other rows of the same table.

    Args:
      name: of the layer.
      table: ``[rows, width]``.
      wanted: ``[..., width]``, what the reference looks up.
      beyond: outputs of the candidate that the reference never has.
    """
    if table.ndim != 2 or wanted.shape[-1:] != table.shape[1:]:
        return None
    # By its bytes: a lookup copies, so that rows are the same to the last bit.
    # Of rows that are equal the last one: which of them was looked up makes no difference to what comes out.
    index = {row.tobytes(): number for number, row in enumerate(np.ascontiguousarray(table, np.float64))}
    own = _looked_up(index, wanted)
    for each in beyond:
        there = _looked_up(index, each) if each.size == wanted.size and each.shape[-1:] == wanted.shape[-1:] else None
        if own is None or there is None or (own == there).all():
            continue
        # Modulo their number, so that a table that is rolled is off by one number too.
        off = np.unique((there - own) % len(table))
        how = f"each {int(off[0])} rows on" if len(off) == 1 else "their indices are computed otherwise"
        return build_cause(
            "other_rows",
            evidence=f"{int((own != there).sum())} of {own.size} rows are others, e.g. {_shown(there)} where the "
            "reference takes "
            f"{_shown(own)}; each is a row of the same table, to the last bit",
            name=name,
            how=how,
        )
    return None


def other_channels(name: str, pairs: Sequence[tuple[Array, Array]], lengths: Collection[int]) -> Cause | None:
    """Returns the cause where what goes into a layer has its channels in another order on the two sides.

    Args:
      name: of the layer.
      pairs: of what goes in: the reference's ``[..., c]``, and the candidate's with the same numbers, in whatever order of
        axes; of vectors each element is a channel.
      lengths: of the axes of the weights that it reads: a vector of another one holds examples.
    """
    for given in pairs:
        if given[0].size == max(given[0].shape, default=0) and given[0].size not in lengths:
            continue
        one, other = (each.reshape(-1) if each.size == max(each.shape) else each for each in given)
        order = _order(one, other) if one.ndim == other.ndim <= MOST_ALIGNED else None
        if order is not None and (order != np.arange(len(order))).any():
            return build_cause(
                "channel_order",
                evidence="each of them holds the reference's numbers, and the weights that it meets are in the "
                "reference's order",
                name=name,
                order=_runs(order),
            )
    return None


def other_rows_of_outputs(
    name: str, values: Array, wanted: Array, beyond: Sequence[Array], length: int = 0
) -> Cause | None:
    """Returns the cause where the candidate picks other rows of what a layer gives.

    Args:
      name: of what gives it.
      values: ``[rows, width]``, what it gives, the same on both sides to rounding.
      wanted: ``[..., width]``, the rows that the reference picks.
      beyond: outputs of the candidate that the reference never has.
      length: of the sequences that the rows are of, one behind the other; 0 where they are of none.
    """
    if values.ndim != 2 or wanted.shape[-1:] != values.shape[1:] or values.shape[1] < FEWEST_IN_A_ROW:
        return None
    own = _picked(values, wanted)
    if own is None:
        return None
    for each in beyond:
        there = _picked(values, each) if each.size == wanted.size and each.shape[-1:] == wanted.shape[-1:] else None
        # Rows may be alike: others are picked only where they hold other numbers.
        if there is None or np.allclose(values[there], values[own], CLOSE_OUTPUT, 0.0):
            continue
        # One row of each sequence is a position in it.
        of_each = length > 1 and all(
            np.array_equal(each // length, np.arange(len(values) // length)) for each in (own, there)
        )
        cause, variant, what = ("pooling", "position", "positions") if of_each else ("other_rows", "", "rows")
        mine, theirs = (each % length if of_each else each for each in (own, there))
        off = np.unique(theirs - mine)
        how = f"each {int(off[0]):+d} {what} on" if len(off) == 1 else "their indices are computed otherwise"
        return build_cause(
            cause,
            variant,
            evidence=f"{np.count_nonzero(own != there)} of {own.size} {what} are others, e.g. {_shown(theirs)} where the "
            f"reference takes {_shown(mine)}; each is a row of what both sides have, to rounding",
            name=name,
            how=how,
        )
    return None


def _picked(values: Array, rows: Array) -> Array | None:
    """By row the number of the row of some values that holds the same numbers to rounding, None where one has none."""
    rows = np.asarray(rows, np.float64).reshape(-1, values.shape[1])
    # Rows are compared by one number each, a product with random ones, and then as a whole: n log n, and not n squared.
    probe = np.random.default_rng(0).normal(size=values.shape[1])
    keys, wanted = values @ probe, rows @ probe
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], wanted)
    scale = CLOSE_OUTPUT * float(np.abs(values).max(initial=0.0))
    found = []
    for row, place in zip(rows, first, strict=True):
        near = order[max(place - 1, 0) : place + 1]
        same = [int(each) for each in near if (np.abs(values[each] - row) <= scale).all()]
        if not same:
            return None
        found.append(same[0])
    return np.array(found)


def _looked_up(index: dict[bytes, int], values: Array) -> Array | None:
    rows = np.ascontiguousarray(values, np.float64).reshape(-1, values.shape[-1])
    found = [index.get(row.tobytes()) for row in rows]
    return None if any(each is None for each in found) else np.array(found)


def _shown(rows: Array) -> str:
    return ", ".join(map(str, rows[:MOST_RUNS_SHOWN]))


def _order(one: Array, other: Array) -> Array | None:
    """By channel of the candidate the reference's with the same numbers; None where that is not a bijection."""
    found = []
    for axes in permutations(range(other.ndim)):
        turned = other.transpose(axes)
        if turned.shape != one.shape:
            continue
        # [values, channels] each. Channel k of the candidate is the reference's channel `order[k]`: the one that holds
        # the same values, to rounding; a channel that two of the reference's would do for is left out, and the order
        # with it.
        columns, wanted = turned.reshape(-1, one.shape[-1]), one.reshape(-1, one.shape[-1])
        scale = CLOSE_OUTPUT * max(float(np.abs(wanted).max()), 1e-300)
        order = []
        for column in columns.T:
            near = np.flatnonzero((np.abs(wanted - column[:, None]) <= scale).all(axis=0))
            order += [int(near[0])] if len(near) == 1 else []
        if len(order) == len(set(order)) == one.shape[-1] >= FEWEST_CHANNELS_ORDERED:
            found.append(np.array(order))
    return next((order for order in found if (order == np.arange(len(order))).all()), found[0] if found else None)


def _runs(order: Array) -> str:
    """The order in words: "24 to 39, 0 to 23"."""
    ends = np.flatnonzero(np.diff(order) != 1)
    starts = [0, *(ends + 1)]
    runs = [(order[a], order[b]) for a, b in zip(starts, [*ends, len(order) - 1], strict=True)]
    shown = [f"{a} to {b}" if a != b else f"{a}" for a, b in runs[: 2 * MOST_RUNS_SHOWN]]
    return ", ".join(shown) + (", ..." if len(runs) > len(shown) else "")
