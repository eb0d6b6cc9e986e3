"""Says what the two sides compute where their forward passes part: another function, one left out, or other places.

For the first op of each side that is wrong though what it takes is right. Where a function of the reference's own inputs
gives the port's numbers to rounding the cause says which; else what is proven is the place alone, and that the same numbers
go in: then both lines are told. Single changes of the whole pass are tried in `repaired`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parity.diagnose.agreement import CLOSE, LEFT, same_in_order
from parity.diagnose.catalogue import build_cause
from parity.diagnose.edits.edit import OTHER_OPERATION
from parity.diagnose.fitting import different_numbers
from parity.diagnose.layers.rules import functions
from parity.diagnose.ops.rearranging import CONCATENATING, GRAPH_PADDING
from parity.diagnose.ops.table import BINARY, UNARY, computed, plain
from parity.judge.metrics import norm
from parity.judge.result import Cause
from parity.locate.layouts import align, same_in_some_layout
from parity.locate.op_kinds import same
from parity.locate.rearranged import FEWEST_MOVED
from parity.trace.arrays import Array

CAST = 1e-7  # of a norm: more than float32 rounds off, less than a bug of a millionth
# A wrong number that comes out of these was chosen before.
ARRANGING = CONCATENATING | GRAPH_PADDING | frozenset(["getitem", "stridedslice", "slice"])
# What both sides call the same setting, each by the names and, of torch's functions, the places that it has there.
SETTINGS: dict[str, tuple[str, ...]] = {
    "epsilon": ("epsilon", "eps"),
    "slope": ("alpha", "negative_slope"),
    "dilation": ("dilations", "dilation"),
    "stride": ("strides", "stride"),
    "window": ("ksize", "kernel_size"),
    "axis": ("axis", "dim"),
    "align_corners": ("align_corners",),
    "label_smoothing": ("label_smoothing",),
    "ignore_index": ("ignore_index",),
    "reduction": ("reduction",),
    "blank": ("blank",),
    "approximate": ("approximate",),
}


class Taken(NamedTuple):
    """What an op takes.

    Fields:
      place: of the argument.
      value: array, None where it is not known.
      of_data: whether it comes of data or of a weight, rather than being a constant.
      line: of the source that makes it, in words, "" where that is not known.
    """

    place: str
    value: Array | None
    of_data: bool
    line: str = ""


class Op(NamedTuple):
    """One side's op at which the passes part.

    Fields:
      kind: of the op or function.
      attributes: its own; of torch's functions the plain arguments by place too.
      takes: in order.
      output: what it gives, None where it is not known.
      line: the line of the source that calls it, in words, "" where that is not known.
      later: outputs of as many numbers that are computed from it soon: a function may be several ops.
    """

    kind: str
    attributes: Mapping[str, Any]
    takes: Sequence[Taken]
    output: Array | None
    line: str
    later: Sequence[Array] = ()

    @property
    def arguments(self) -> list[Any]:
        """What it takes by position, numbers among arrays where they are given."""
        # torch counts plain arguments by place: with the arrays put among them the call can be made again.
        placed: dict[str, Any] = {place: value for place, value in self.attributes.items() if place.isdigit()}
        # Keyword arguments have names for places, and stay in the attributes.
        placed.update((each.place, each.value) for each in self.takes if each.place.isdigit())
        return [placed[place] for place in sorted(placed, key=int)]

    @property
    def data(self) -> list[Array]:
        """The arrays among them that are no constants."""
        return [np.asarray(each.value, np.float64) for each in self.takes if each.of_data and each.value is not None]


def at_op(reference: Op, candidate: Op, proven: str, readers: Sequence[Op] = ()) -> Cause | None:
    """Returns what the two sides compute where they part, or None.

    Args:
      reference: its first op that differs.
      candidate: the port's.
      proven: why the port's op is the first that is wrong, in words; "" where that is not known.
      readers: the reference's ops that take the output of its first, as it is or laid out anew.
    """
    if reference.output is None or candidate.output is None or not reference.line or not candidate.line:
        return None
    # A cast or an identity computes nothing: what is wrong was wrong in front of it.
    if _hands_on(reference) or _hands_on(candidate):
        return None
    # From what the numbers prove to what they only allow: another function, an op left out, values moved, anything
    # else.
    cause = _function(reference, candidate)
    if cause is not None:
        return cause
    for reader in readers:
        cause = _left_out(reference, candidate, reader)
        cause = cause or (_passed_by(reference, candidate, reader) if proven else None)
        if cause is not None:
            return cause
    arranged = {plain(op.kind) for op in (reference, candidate)} & ARRANGING
    # Something that both ops take has to be the same, or it is the input that differs, and not the op.
    shares = not arranged and any(_alike(one, two) for one in reference.data for two in candidate.data)
    # Number by number another count of numbers comes of other things beside: it is another way, not this op that is wrong.
    elementwise = all(plain(op.kind) in {*BINARY, *UNARY} for op in (reference, candidate))
    proven = proven if shares and not (elementwise and reference.output.size != candidate.output.size) else ""
    return _moved(reference, candidate) or (_other(reference, candidate, proven) if proven else None)


def _hands_on(op: Op) -> bool:
    """Whether an op gives what it takes, but for rounding to float32, as a cast does: nothing is computed there."""
    assert op.output is not None
    given = np.asarray(op.output, np.float64)
    # The whole norm, since a cast rounds each value by at most 6e-8 of itself.
    return any(
        x.size == given.size and norm(x.reshape(given.shape) - given) <= CAST * norm(given) < math.inf for x in op.data
    )


def _moved(reference: Op, candidate: Op) -> Cause | None:
    """The same numbers go in, in other places, and both ops do the same with what they are given."""
    # Of different functions the order of numbers has no meaning to compare.
    if plain(reference.kind) != plain(candidate.kind):
        return None
    # The reference's op computed again has to give its output: else its rule is not known well enough.
    own, other = reference.arguments, candidate.arguments
    if any(each is None for each in [*own, *other]) or not same_in_order(_gives(reference, own), reference.output):
        return None
    for x in reference.data:
        # Sorted first, which is cheap: only the same numbers can stand in other places.
        for moved in candidate.data if different_numbers(x) >= FEWEST_MOVED else []:
            # In order, each to CLOSE of itself: atol = 0 asks as much of the numbers near 0.
            if x.size != moved.size or not np.allclose(np.sort(x, axis=None), np.sort(moved, axis=None), CLOSE, 0.0):
                continue
            pair = align(x, moved)
            # Not the same under any order of axes, and the port's op gives its own output of them: the op is right, its
            # input moved.
            if (pair is None or pair.apart > CLOSE) and same_in_order(_gives(candidate, other), candidate.output):
                made = next((each.line for each in candidate.takes if same_in_order(moved, each.value)), "")
                text = (
                    f"sorted, the {x.size} numbers are the same on both sides; under no order of their axes are they in the "
                    f"same places; and each side's {plain(candidate.kind)} of its own gives what it has"
                )
                lines = f"{candidate.line}{f', of what {made} gives' if made else ''} / {reference.line}"
                return build_cause("moved_values", "op", evidence=text, kind=plain(candidate.kind), lines=lines)
    return None


def _gives(op: Op, arguments: Sequence[Any]) -> Array | None:
    return computed(op.kind, arguments, op.attributes)


def _left_out(reference: Op, candidate: Op, reader: Op) -> Cause | None:
    """What follows takes what the reference's op takes, rather than what it gives."""
    own = reader.arguments
    if any(each is None for each in own) or not same_in_order(
        computed(reader.kind, own, reader.attributes), reader.output
    ):
        return None
    for x in reference.data:
        if reference.output is None or x.size != reference.output.size:
            continue
        # The reader's arguments, with what the left-out op gives replaced by what it takes.
        fed = [x.reshape(np.shape(each)) if same_in_order(each, reference.output) else each for each in own]
        made = computed(reader.kind, fed, reader.attributes)
        if _explains(made, reader, candidate):
            kind = plain(reference.kind)
            text = f"{plain(reader.kind)} of what {kind} takes, rather than gives, is what the port has, to rounding"
            return _without(reference, candidate, text)
    return None


def _passed_by(reference: Op, candidate: Op, reader: Op) -> Cause | None:
    """The port's op takes what the reference's takes, and beside it what the reader takes beside the reference's output."""
    output, read, taken = reference.output, _floats(reader), _floats(candidate)
    assert output is not None
    beside = [each for each in read if not _alike(each, output)]
    # Without anything beside it one op of many could be meant: then the kinds have to tell.
    alone = same(reader.kind, candidate.kind) and not same(reference.kind, candidate.kind)
    if len(beside) == len(read) or not (beside or alone):
        return None
    for x in _floats(reference):
        others = [each for each in taken if not _alike(each, x)]
        if x.size != output.size or _alike(x, output) or len(others) == len(taken) or len(others) != len(beside):
            continue
        # Each of what the reader takes beside the output has its like among what the port's op takes.
        if all(any(_alike(one, two) for two in others) for one in beside):
            kind = plain(reference.kind)
            text = f"the port goes on with what {kind} takes, rather than gives, and all else that its reader takes"
            return _without(reference, candidate, text)
    return None


def _without(reference: Op, candidate: Op, evidence: str) -> Cause:
    kind = plain(reference.kind)
    return build_cause("op_left_out", "op", evidence=evidence, kind=kind, line=reference.line, onward=candidate.line)


def _floats(op: Op) -> list[Array]:
    """The arrays of floats that an op takes; none where one of what it takes is not known."""
    values = [each.value for each in op.takes if each.of_data]
    if any(value is None for value in values):
        return []
    return [np.asarray(value, np.float64) for value in values if value is not None and value.dtype.kind == "f"]


def _alike(one: Array, other: Array) -> bool:
    """Whether two arrays hold the same numbers, whatever the order of axes; of one number nobody can tell."""
    return one.size > 1 and same_in_some_layout(one, other, CLOSE)  # of one number any array may be


def _function(reference: Op, candidate: Op) -> Cause | None:
    """One input, and another function of it."""
    output = reference.output
    for x in reference.data if output is not None and output.size > 1 else []:
        if output is None or x.size != output.size:
            continue
        x = x.reshape(output.shape)
        names = [(name, function(x)) for name, function in _quiet()]
        # A graph may make one function of several ops, such as a leaky ReLU as a maximum: its last is what counts.
        outputs = [output, *(each.reshape(output.shape) for each in reference.later)]
        # The reference's own function has to be known, or another one of the port's says nothing.
        own = next((name for name, made in names for each in outputs if same_in_order(made, each)), None)
        other = next((name for name, made in names if _explains(made, reference, candidate)), None)
        if own and other and own != other:
            text = f"{other} of what goes in gives the port's numbers to rounding, {own} the reference's"
            return _computes("activation_function", reference, candidate, text)
    return None


def _other(reference: Op, candidate: Op, proven: str) -> Cause:
    """What goes in is right and what comes out is not: what differs is what is computed."""
    told = list(_settings(reference, candidate))
    apart = f"; {'; '.join(told)}" if told else ""
    return _computes(OTHER_OPERATION, reference, candidate, proven, apart)


def _settings(reference: Op, candidate: Op) -> Iterator[str]:
    """Yields the settings that both sides have, by whatever name, and that are not the same."""
    for words, names in SETTINGS.items():
        own, other = (
            next((op.attributes[n] for n in names if n in op.attributes), None) for op in (reference, candidate)
        )
        if own is not None and other is not None and _setting(own) != _setting(other):
            yield f"{words} is {_written(other)} in the port, {_written(own)} in the reference"


def _setting(value: Any) -> Any:
    if isinstance(value, list | tuple):  # a graph has strides of examples and channels too
        # [1, 2, 2, 1] of a graph is (2, 2) of torch, and its 2.
        inner = [each for each in value if each != 1] or [1]
        return inner[0] if len(set(inner)) == 1 else tuple(inner)
    # Attributes of a graph are float32: 0.1 and float32(0.1) are one setting.
    return float(np.float32(value)) if isinstance(value, float) else value


def _written(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _computes(name: str, reference: Op, candidate: Op, evidence: str, apart: str = "") -> Cause:
    own, other = plain(reference.kind), plain(candidate.kind)
    return build_cause(
        name,
        "computes" if own != other else "computes otherwise",
        evidence=evidence,
        other=other,
        own=own,
        port=candidate.line,
        graph=reference.line,
        where=apart,
    )


def _quiet() -> Iterator[tuple[str, Any]]:
    for name, function in functions():

        def quiet(x: Array, function: Any = function) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(function(x))

        yield name, quiet


def _explains(made: Array | None, reference: Op, candidate: Op) -> bool:
    """Whether an array is the port's output, whatever its layout, and not the reference's."""
    assert reference.output is not None and candidate.output is not None
    if made is None or not np.isfinite(made).all() or not np.isfinite(candidate.output).all():
        return False
    # The port's axes may be in another order.
    pair = align(made, candidate.output)
    if pair is None or pair.apart > CLOSE:
        return False
    of_both = align(reference.output, candidate.output)
    # Near to the port's output is not enough: the reference's own may be as near, where a bug is small.
    return of_both is None or pair.apart <= LEFT * of_both.apart
