"""Takes a loss apart into its terms: walks back through whatever is linear, and says how much each number counts.

Nothing is believed of an op's name but what it may be: that an op adds, scales, averages or picks is checked on the numbers.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from parity.diagnose.ops.forward_pass import MOST_AXES_PERMUTED
from parity.judge.metrics import norm
from parity.locate.matching import Value
from parity.trace import ForwardOp
from parity.trace.arrays import Array

# Of numbers that one op of float64 makes of others, relative to their size: sqrt(n) u of a sum of n = 80 million.
ROUNDING_OF_OP = 1e-12
MASKING_WORDS = ("where", "mask", "select", "mul")
PICKING_WORDS = ("getitem", "gather", "select", "slice", "take", "split", "chunk", "unbind", "unstack", "unpack")
SCALING_WORDS = ("mul", "div", "neg", "scale", "mean", "sum", "add", "sub", "clone", "cast", "alias", "einsum")
REDUCING_WORDS = ("mean", "sum", "avg")
TURNED = ("rdiv", "rtruediv", "reciprocal")  # a number over what the op takes
MOST_ELEMENTS_PERMUTED = 200_000  # of an output that is looked at in every order of its axes


class Term(NamedTuple):
    """What a loss is a sum of.

    Fields:
      number: of the op that gives it.
      value: its output.
      counts: how much each of its numbers counts in the loss, of the output's shape.
    """

    number: int
    value: Array
    counts: Array

    @property
    def part(self) -> float:
        """What it brings to the loss."""
        return float((self.value * self.counts).sum())

    @property
    def factor(self) -> float | None:
        """How much every number of it counts, None where they count differently."""
        flat = self.counts.reshape(-1)
        same = np.ptp(flat) <= ROUNDING_OF_OP * np.abs(flat).max(initial=0.0)
        return float(flat[0]) if flat.size and same else None


class Terms(NamedTuple):
    """A loss as a sum.

    Fields:
      terms: those that come of data.
      constant: what is added to them, of no weights.
      of_weights: what is added of weights alone, such as their decay.
    """

    terms: list[Term]
    constant: float
    of_weights: float


def terms_of(ops: Sequence[ForwardOp], value: Value, end: int, known: Collection[int]) -> Terms | None:
    """Returns what a loss is a sum of; None where its value is not known, or the parts do not add up to it.

    Args:
      ops: of a forward pass, in an order of execution.
      value: returns the output of an op, None where it is not known.
      end: number of the op that gives the loss.
      known: numbers of the ops behind which is not looked: those whose output the other side has too.
    """
    whole = _float(value(end))
    if whole is None or whole.size != 1:
        return None
    # By op what one more of each of its numbers adds to the loss, of its output's shape: 1 at the loss itself.
    counts: dict[int, Array] = {end: np.ones(whole.shape)}
    # `found` holds the terms, last op first; `size` bounds the rounding of all that was walked over.
    found, added, size = list[Term](), [0.0, 0.0], 0.0
    # Against the order of execution: all that reads an op comes before it, so that its counts are complete here.
    for number in range(end, -1, -1):
        own = counts.pop(number, None)
        # Popped: what is left in `counts` is still to come.
        made = _float(value(number)) if own is not None else None
        if own is None or made is None:
            continue
        # Behind what the other side has too nothing is taken apart: there the two losses have the same numbers.
        parts = _parts(ops, value, number, made) if number not in known else None
        for each, through in parts.takes if parts else []:
            taken = through(own) if parts else own
            counts[each] = counts[each] + taken if each in counts else taken
        if parts is None:
            found.append(Term(number, made, own))
        else:
            # Index 1, `of_weights`, where the op itself reads a weight; index 0, `constant`, elsewhere.
            added[bool(ops[number].weights)] += float((own * parts.added).sum())
        # Parts may cancel: what rounds is in proportion to their sizes, not to the loss.
        size += float(np.abs(own * made).sum())
    total = sum(term.part for term in found) + sum(added)
    # The proof of the whole walk: a step that was not linear, or read otherwise, makes another sum.
    return Terms(found[::-1], *added) if abs(total - float(whole.reshape(()))) <= 100 * ROUNDING_OF_OP * size else None


class _Through:
    """Carries how much an output's numbers count back to what it is made of.

    Args:
      shape: of what it is made of, as it was kept.
      places: for each of the output's numbers the place that it comes from, flat; -1 where it comes from none.
      factors: what it is multiplied by, of the output's shape.
    """

    def __init__(self, shape: tuple[int, ...], places: Array, factors: Array) -> None:
        self._shape, self._places, self._factors = shape, places, factors

    def __call__(self, counts: Array) -> Array:
        # One for each of the output's numbers.
        weights = np.broadcast_to(counts * self._factors, self._places.shape).reshape(-1)
        places = self._places.reshape(-1)
        size = int(np.prod(self._shape))
        # bincount adds up what falls on one place: what is broadcast, or read twice, counts as often.
        counted = np.bincount(places[places >= 0], weights[places >= 0], size)
        return np.asarray(counted.reshape(self._shape))


class _Reduced(_Through):
    """The same of a sum over some axes: many numbers become one.

    Args:
      shape: of what is summed, as it was kept.
      layout: places of its numbers in the layout in which they are summed.
      axes: that are summed over.
      factor: what the sum is multiplied by.
    """

    def __init__(self, shape: tuple[int, ...], layout: Array, axes: tuple[int, ...], factor: float) -> None:
        super().__init__(shape, layout, np.asarray(factor))
        self._axes = axes

    def __call__(self, counts: Array) -> Array:
        # Size 1 along the axes that are summed over, so that what the sum counts spreads over all that is in it.
        kept = tuple(1 if axis in self._axes else size for axis, size in enumerate(self._places.shape))
        return super().__call__(counts.reshape(kept))


class _Parts(NamedTuple):
    # What an op that is linear takes, and what it adds to that.
    takes: list[tuple[int, _Through]]
    added: Array


def _parts(ops: Sequence[ForwardOp], value: Value, number: int, made: Array) -> _Parts | None:
    taken = {each: _float(value(each)) for each in ops[number].inputs}
    # Only floats count: integers are labels, indices or shapes.
    known = {each: array for each, array in taken.items() if array is not None and array.size}
    with np.errstate(all="ignore"):
        if len(known) == 2 and len(taken) == 2:
            # Added or subtracted first: a product is taken apart only where one factor is of data alone.
            return _of_two(known, made) or _scaled(ops, known, made)
        if len(known) > 2:
            return _sum_of(known, made) or _joined(known, made)
        if len(known) == 1:
            ((each, array),) = known.items()
            # A loss function of torch that reduces: the losses of its examples stand in front of it as an op of their
            # own.
            if ops[each].kind.startswith(f"{ops[number].kind} of each"):
                return _of_loss(ops, value, each, made)
            return _of_one(ops[number], each, array, made)
    return None


def _of_two(known: dict[int, Array], made: Array) -> _Parts | None:
    (one, x), (two, y) = known.items()
    # Either may be broadcast, or have its axes in another order.
    for a in _layouts(x, made.shape):
        for b in _layouts(y, made.shape):
            # x + y, x - y and y - x: what is linear in both.
            for of_a, of_b in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)):
                if _alike(made, of_a * a.values + of_b * b.values):
                    return _Parts([(one, a.through(of_a)), (two, b.through(of_b))], np.zeros(()))
    return _joined(known, made)


def _scaled(ops: Sequence[ForwardOp], known: dict[int, Array], made: Array) -> _Parts | None:
    """One of the two is no more than data: a mask, weights, a count. A mask is fixed whatever it is made of."""
    fixed = [each for each, array in known.items() if np.isin(array, (0.0, 1.0)).all() or not _of_weights(ops, each)]
    # Both fixed, or neither: then it is a product of two of the model's outputs, which is not linear.
    if len(fixed) != 1:
        return None
    (each,) = (number for number in known if number != fixed[0])
    for a in _layouts(known[each], made.shape):
        for b in _layouts(known[fixed[0]], made.shape):
            # Multiplied by it, or divided: a mean over what counts divides by a sum of the mask.
            for factors in (b.values, 1.0 / b.values):
                if _alike(made, a.values * factors):
                    return _Parts([(each, a.through(factors))], np.zeros(()))
    return None


def _sum_of(known: dict[int, Array], made: Array) -> _Parts | None:
    layouts = {each: next(_layouts(array, made.shape), None) for each, array in known.items()}
    if any(layout is None for layout in layouts.values()):
        return None
    listed = [(each, layout) for each, layout in layouts.items() if layout is not None]
    # All of them in the layout that fits first: with three and more the number of tries would explode.
    if not _alike(made, np.sum([layout.values for _, layout in listed], axis=0)):
        return None
    return _Parts([(each, layout.through(1.0)) for each, layout in listed], np.zeros(()))


def _joined(known: dict[int, Array], made: Array) -> _Parts | None:
    """Stacked or concatenated."""
    arrays = list(known.values())
    if sum(array.size for array in arrays) != made.size:
        return None
    # [0, n1, n1 + n2, ...]: where each of them begins in the common numbering.
    ends = np.cumsum([0] + [array.size for array in arrays])
    # One numbering over all arrays: a place of the output says which array it comes from, and from where in it.
    flat = [np.arange(array.size).reshape(array.shape) + end for array, end in zip(arrays, ends[:-1], strict=True)]
    held = np.concatenate([array.reshape(-1) for array in arrays])
    for places in _together(flat):
        # By the numbers: which axis it was joined along does not matter.
        if places.size == made.size and _alike(made, held[places].reshape(made.shape)):
            places = places.reshape(made.shape)
            each = zip(known, ends[:-1], ends[1:], strict=True)
            takes = [
                # -1 for a number of another array, see `_Through`.
                (number, _Through(known[number].shape, np.where((places >= a) & (places < b), places - a, -1), _ONE))
                for number, a, b in each
            ]
            return _Parts(takes, np.zeros(()))
    return None


def _together(flat: list[Array]) -> Iterator[Array]:
    shapes = {each.shape for each in flat}
    for axis in range(max(each.ndim for each in flat) + 1):
        # New axis where all are of one shape; an old one where they differ along it alone.
        if len(shapes) == 1:
            yield np.stack(flat, axis)
        if (
            all(each.ndim > axis for each in flat)
            and len({np.delete(each.shape, axis).tobytes() for each in flat}) == 1
        ):
            yield np.concatenate(flat, axis)


def _of_one(op: ForwardOp, number: int, x: Array, made: Array) -> _Parts | None:
    kind = op.kind.lower()
    if made.size == x.size:
        # A mask is tried first: a factor of 1 or 0 by element is one too.
        return _masked(kind, number, x, made) or _of_same_size(kind, _turned(op), number, x, made)
    if made.size < x.size and any(word in kind for word in PICKING_WORDS):
        return _picked(number, x, made)
    return _summed(number, x, made) if made.size < x.size and any(word in kind for word in REDUCING_WORDS) else None


def _turned(op: ForwardOp) -> bool:
    """Whether what an op takes is what it subtracts, or divides by."""
    kind = op.kind.lower()
    # The number before the op: c - x, or c / x.
    first = [operand.op is None for operand in op.operands] == [True, False]
    return first or kind.strip("_").startswith(("rsub", *TURNED)) or "reciprocal" in kind


def _of_same_size(kind: str, turned: bool, number: int, x: Array, made: Array) -> _Parts | None:
    adds = "add" in kind or "sub" in kind
    if not any(word in kind for word in SCALING_WORDS) or (turned and "div" in kind) or "reciprocal" in kind:
        return None
    # c - x: x counts negatively.
    sign = -1.0 if turned and "sub" in kind else 1.0
    for a in _layouts(x, made.shape):
        rest = made - sign * a.values  # what is added, one number everywhere
        if adds and np.ptp(rest) <= ROUNDING_OF_OP * (np.abs(made).max() + np.abs(a.values).max()):
            return _Parts([(number, a.through(sign))], rest)
        # Where x is largest the quotient is known best, and is none of 0 and 0.
        place = int(np.abs(a.values).argmax())
        factor = made.reshape(-1)[place] / a.values.reshape(-1)[place]
        if not adds and np.isfinite(factor) and _alike(made, factor * a.values):
            return _Parts([(number, a.through(factor))], np.zeros(()))
    return None


def _masked(kind: str, number: int, x: Array, made: Array) -> _Parts | None:
    if x.size == 1 or not any(word in kind for word in MASKING_WORDS):
        return None
    for a in _layouts(x, made.shape):
        kept = made == a.values
        # x or 0 in every place, and both somewhere: all of x is no mask, and neither are zeros alone.
        if not kept.all() and kept.any() and (kept | (made == 0.0)).all():
            return _Parts([(number, a.through(kept.astype(np.float64)))], np.zeros(()))
    return None


def _picked(number: int, x: Array, made: Array) -> _Parts | None:
    """Some of its numbers, wherever they stand: which, their values tell. Of numbers that are alike it matters to none."""
    flat, wanted = x.reshape(-1), made.reshape(-1)
    # Both in order: a number that was picked stands in the sorted values where bisection finds it.
    order, turn = np.argsort(flat, kind="stable"), np.argsort(wanted, kind="stable")
    first = np.searchsorted(flat[order], wanted[turn])
    # Of k that are alike, the k places from the first on.
    again = np.arange(wanted.size) - np.searchsorted(wanted[turn], wanted[turn])
    taken = first + again
    # To the last bit: picking does not round.
    if (taken >= flat.size).any() or (flat[order][np.minimum(taken, flat.size - 1)] != wanted[turn]).any():
        return None
    places = np.empty(wanted.size, np.intp)
    places[turn] = order[taken]
    return _Parts([(number, _Through(x.shape, places.reshape(made.shape), _ONE))], np.zeros(()))


def _of_loss(ops: Sequence[ForwardOp], value: Value, number: int, made: Array) -> _Parts | None:
    """What torch makes of the losses of examples: their sum, or that over what the weights of those that count add up to."""
    x = np.asarray(value(number), np.float64)
    places, axes, total = np.arange(x.size).reshape(x.shape), tuple(range(x.ndim)), float(np.abs(x).sum())
    for count in _counts(ops, value, number, x, made):
        if _alike(made, np.asarray(x.sum() / count).reshape(made.shape), total / count):
            return _Parts([(number, _Reduced(x.shape, places, axes, 1.0 / count))], np.zeros(()))
    return None


def _counts(ops: Sequence[ForwardOp], value: Value, number: int, x: Array, made: Array) -> Iterator[float]:
    """Yields what the sum of some losses may be divided by. Those of labels that are ignored are 0 and do not count."""
    before = [_float(value(each)) for each in ops[number].inputs if ops[number].kind.startswith(ops[each].kind)]
    plain = next((each for each in before if each is not None and each.shape == x.shape), None)
    yield 1.0
    if plain is not None:
        # The weights of what counts, as weighted losses over plain ones.
        yield float((x[plain != 0.0] / plain[plain != 0.0]).sum())
    # sum / count is what was made of it, solved for the count.
    count = np.round(x.sum() / made.reshape(()))
    if np.count_nonzero(x) <= count <= x.size and count:
        yield float(count)


def _summed(number: int, x: Array, made: Array) -> _Parts | None:
    for layout in _orders(x):
        values = x.reshape(-1)[layout]
        for count in range(1, values.ndim + 1):
            for axes in combinations(range(values.ndim), count):
                if values.size // int(np.prod([values.shape[axis] for axis in axes])) != made.size:
                    continue
                total = values.sum(axis=axes)
                share = made.size / values.size  # of a mean, one over how many become one number
                for factor in (1.0, share):
                    # Relative to the sizes of what is summed: a sum that cancels is known no better.
                    if _alike(made, factor * total.reshape(made.shape), float(np.abs(values).sum()) * factor):
                        return _Parts([(number, _Reduced(x.shape, layout, axes, factor))], np.zeros(()))
    return None


_ONE = np.ones(())


class _Layout(NamedTuple):
    # An array in another order of its numbers: their values, and where they stand in it as it was kept.
    values: Array
    places: Array
    shape: tuple[int, ...]

    def through(self, factors: "Array | float") -> _Through:
        return _Through(self.shape, self.places, np.asarray(factors))


def _layouts(x: Array, shape: tuple[int, ...]) -> Iterator[_Layout]:
    """Yields an array as it may stand in an output of a shape: as it is, or with axes in another order."""
    size = int(np.prod(shape))
    for order in _orders(x):
        places = order.reshape(shape) if order.size == size else _broadcast(order, shape)
        if places is not None:
            yield _Layout(x.reshape(-1)[places], places, x.shape)


def _broadcast(order: Array, shape: tuple[int, ...]) -> Array | None:
    try:
        return np.asarray(np.broadcast_to(order, shape))
    except ValueError:
        return None


def _orders(x: Array) -> Iterator[Array]:
    places = np.arange(x.size).reshape(x.shape)
    # n axes have n! orders, each of which reads all the numbers.
    few = x.ndim <= MOST_AXES_PERMUTED and x.size <= MOST_ELEMENTS_PERMUTED
    axes = permutations(range(x.ndim)) if few else iter([tuple(range(x.ndim))])
    for order in axes:
        yield places.transpose(order)


def _alike(made: Array, computed: Array, size: float = 0.0) -> bool:
    computed = np.asarray(computed)
    if computed.shape != made.shape or not np.isfinite(computed).all():
        return False
    return bool(norm(made - computed) <= ROUNDING_OF_OP * max(norm(computed), size))


def _of_weights(ops: Sequence[ForwardOp], number: int) -> bool:
    pending, seen = [number], set[int]()
    while pending:
        each = pending.pop()
        if ops[each].weights:
            return True
        seen.add(each)
        pending += [earlier for earlier in ops[each].inputs if earlier not in seen]
    return False


def _float(value: Array | None) -> Array | None:
    return np.asarray(value, np.float64) if value is not None and value.dtype.kind == "f" else None
