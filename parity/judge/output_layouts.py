"""Finds in which layout a candidate returns an output that the reference returns in TensorFlow's."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations
from math import hypot

from parity.judge.imprecise_ops import OUTPUT_QUANTITIES
from parity.judge.metrics import distance, norm
from parity.mapping import MappingError, parse_transform
from parity.mapping.trace_map import Join
from parity.trace import Trace, parse_key
from parity.trace.arrays import Array

IDENTITY = "identity"
# By number of axes; the likelier first.
# torch's own orders of axes: channels first of 3 to 5 axes, time first of recurrent layers.
USUAL = {
    2: ("transpose",),
    3: ("nlc_to_ncl", "ntc_to_tnc"),
    4: ("nhwc_to_nchw", "nchw_to_nhwc"),
    5: ("ndhwc_to_ncdhw",),
}
MOST_ORDERED = 5  # 120 orders
AGREES = 0.1  # of the norm: so near numbers have to come there
NEARER = 2.0  # so much nearer numbers have to bring a layout for it to be taken where shapes allow several


def layout_of(pairs: Sequence[tuple[Array, Array]]) -> str:
    """Returns the transform by which an output of the reference has become the candidate's.

    Where one of the usual layouts fits the shapes, it is that one; where several do, as of squares, the one in which the
    numbers agree, and as it is where none is clearly nearer. A square matrix stays as it is: the products of two matrices in
    either order are one another's transpose, and not the same. Where none fits the axes may be in any other order, as of
    images with two axes in front, or heads beside time: in which the numbers agree.

    Args:
      pairs: the output on both sides, by tower.

    Returns:
      Text of a transform; "identity" where none of them fits.
    """
    fitting = _fitting((IDENTITY, *USUAL.get(pairs[0][0].ndim, ())), pairs)
    if not fitting:
        return _in_another_order(pairs)
    # Shapes alone decide, unless one axis is as long as another.
    if len(fitting) < 2:
        return fitting[0]
    # A Gram matrix, or attention with as many queries as keys: transposed it is another result.
    if pairs[0][0].ndim == 2 and IDENTITY in fitting:
        return IDENTITY
    # Of equally near ones the first, which is the identity.
    nearest = min(fitting, key=lambda text: _apart(text, pairs))
    clearly = _apart(nearest, pairs) * NEARER < _apart(fitting[0], pairs)
    return nearest if clearly and _agrees(nearest, pairs) else fitting[0]


def _in_another_order(pairs: Sequence[tuple[Array, Array]]) -> str:
    """The order of axes in which the numbers agree, "identity" where they agree in none."""
    axes = pairs[0][0].ndim
    orders = permutations(range(axes)) if axes <= MOST_ORDERED else ()
    fitting = _fitting((f"axes({', '.join(map(str, order))})" for order in orders), pairs)
    nearest = min(fitting, key=lambda text: _apart(text, pairs), default=IDENTITY)
    return nearest if nearest != IDENTITY and _agrees(nearest, pairs) else IDENTITY


def _agrees(text: str, pairs: Sequence[tuple[Array, Array]]) -> bool:
    # Measured against the size, for a bug leaves every layout far off: the smaller of two large distances says nothing.
    return _apart(text, pairs) <= AGREES * hypot(*(norm(one) for one, _ in pairs))


def _apart(text: str, pairs: Sequence[tuple[Array, Array]]) -> float:
    # Over all towers at once: the port has one layout, whatever tower shows it.
    return hypot(*(distance(one, _backward(text, other)) for one, other in pairs))


def _fitting(texts: Iterable[str], pairs: Sequence[tuple[Array, Array]]) -> list[str]:
    return [text for text in texts if all(_fits(text, *each) for each in pairs)]


def _fits(text: str, one: Array, other: Array) -> bool:
    try:
        return bool(_backward(text, other).shape == one.shape and other.dtype.kind == one.dtype.kind)
    except MappingError:
        return False


def _backward(text: str, array: Array) -> Array:
    return parse_transform(text).backward(array, shape=array.shape)


def take_layouts(join: Join, reference: Trace, candidate: Trace) -> list[str]:
    """Has outputs that no mapping gives a layout be read in the one that they are found in; returns what to say of it.

    Args:
      join: names and layouts; takes those of activations and metrics.
      reference: a trace; its first step decides.
      candidate: of the same steps.
    """
    steps = [step for step in reference.step_numbers if step in candidate.step_numbers]
    if not steps:
        return []
    # The first step: behind a bug later ones agree in no layout.
    one_file, other_file = reference.step(steps[0]), candidate.step(steps[0])
    pairs = defaultdict[tuple[str, str], list[tuple[Array, Array]]](list)
    for text in one_file.names(*OUTPUT_QUANTITIES):
        key = parse_key(text)
        if (other := join.read(key, other_file)) is not None:
            pairs[key.quantity, key.name].append((one_file.read(text), other))
    for (quantity, name), each in pairs.items():
        layout = layout_of(each)
        if layout != IDENTITY:
            join.take_layout(quantity, name, layout)
    taken = join.layouts
    if not taken:
        return []
    told = [f"{name} ({layout})" for name, layout in taken.items()]
    return [f"outputs in another layout, guessed by their shapes and numbers: {', '.join(told)}"]
