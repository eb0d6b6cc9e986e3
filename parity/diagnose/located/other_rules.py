"""Where two forward passes part: computes the op again by other rules, from what both passes hold."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from parity.diagnose.layers.other_rules import Op, other_way
from parity.diagnose.layers.products import other_channels, other_rows, other_rows_of_outputs
from parity.diagnose.layers.windows import Windows, windows_among
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.downstream import readers
from parity.locate.matching import Pass
from parity.trace.arrays import Array

MOST_OUTPUTS_BEHIND = 16  # outputs of a side behind the difference


def cause_by_other_ways(place: Location, weights: Mapping[str, Array], flattened: bool = False) -> Cause | None:
    """Returns the cause where the op that parts, done otherwise, gives an output of the candidate; None where none does.

    Args:
      place: where the passes part.
      weights: dict of the reference's variable to its value.
      flattened: whether some weight of the port holds its numbers in another order, as of a flattened map: then so may be
        what is flat.
    """
    reference, candidate = place.passes
    start = place.parting.reference
    number = reference.ops.index(place.op) if start is None else start
    inputs = _inputs(number, place)
    outputs = _values(reference, _from(number, reference, place.reached.reference))
    beyond = _values(candidate, _from(place.parting.candidate, candidate, place.reached.candidate))
    if not beyond:
        return None
    op, name = reference.ops[number], place.layer or place.op.name
    own = reference.value(number)
    read = [weights[each] for each in op.weights if each in weights]
    # Of a map that is flattened the channels are spread over one axis: another order there is `flatten_order`.
    pairs = [pair for pair in _moved(number, place) if pair[0].ndim > 2 or not flattened]
    moved = other_channels(name, pairs, {length for each in read for length in each.shape})
    if moved is not None:
        return moved
    if own is not None and op.kind.startswith(("Gather", "ResourceGather")) and len(read) == 1:
        return other_rows(name, read[0], np.asarray(own, np.float64), beyond)
    if own is not None and op.kind.startswith("Gather") and own.ndim > 1:
        for each in inputs:
            rows = each.reshape(-1, own.shape[-1]) if each.size % own.shape[-1] == 0 else each
            length = each.shape[1] if each.ndim == 3 and each.shape[2] == own.shape[-1] else 0  # [n, steps, width]
            cause = other_rows_of_outputs(name, rows, np.asarray(own, np.float64), beyond, length)
            if cause is not None:
                return cause
    for image in inputs if own is not None and own.ndim == 4 else []:
        # [h, w, c, out]; of one spatial axis, which TensorFlow computes as an image of one row, [1, w, c, out].
        kernel = next((each if each.ndim == 4 else each[None] for each in read if each.ndim in (3, 4)), None)
        bias = (
            next((each for each in weights.values() if each.shape == own.shape[-1:]), None) if own is not None else None
        )
        windows = Windows(name, op.kind, image, kernel, op.attributes, np.asarray(own, np.float64), image)
        cause = windows_among(windows, beyond, bias)
        if cause is not None:
            return cause
    return other_way(Op(name, inputs, outputs, beyond))


def _from(number: int | None, passed: Pass, reached: Mapping[int, int]) -> list[int]:
    """An op and what is computed of it, as far as the other side has it not."""
    if number is None:
        return []
    after, found = readers(passed.ops), {number}
    for each in range(number, len(passed.ops)):
        if each in found:
            found.update(after[each])
    return sorted(found - reached.keys())


def _values(passed: Pass, numbers: Sequence[int]) -> list[Array]:
    values = (passed.value(number) for number in numbers[:MOST_OUTPUTS_BEHIND])
    return [np.asarray(each, np.float64) for each in values if each is not None and each.dtype.kind == "f"]


def _inputs(number: int, place: Location) -> list[Array]:
    """What the reference's op takes, and what the port's takes as the reference has it."""
    reference, candidate = place.passes
    taken = list(reference.ops[number].inputs)
    there = place.parting.candidate
    for each in candidate.ops[there].inputs if there is not None else []:
        same = place.reached.candidate.get(each)
        # In the reference's values, so that a rule that the port follows is computed in the reference's layout.
        taken += [same] if same is not None and same not in taken else []
    return _values(reference, taken)


def _moved(number: int, place: Location) -> list[tuple[Array, Array]]:
    """Pairs of what goes in: as the reference has it, and the candidate's output of the same numbers."""
    reference, candidate = place.passes
    begin = place.parting.candidate
    there = candidate.ops[begin].inputs if begin is not None else []
    taken: list[tuple[int | None, int | None]] = []
    taken += [(each, place.reached.reference.get(each)) for each in reference.ops[number].inputs]
    taken += [(place.reached.candidate.get(each), each) for each in there]
    pairs = [(reference.value(a), candidate.value(b)) for a, b in taken if a is not None and b is not None]
    # As the ops take it: a shuffle of channels is no op, but a layout between two.
    own, other = (list(_images(passed, at)) for passed, at in ((reference, number), (candidate, begin)))
    # An axis of size 1 is no place: a graph computes one spatial axis as an image of one row.
    own, other = ([np.squeeze(each) for each in images] for images in (own, other))
    pairs += [(a, b) for a in own for b in other if a.size == b.size and a.ndim == b.ndim > 1]
    return [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs if a is not None and b is not None]


def _images(passed: Pass, number: int | None) -> Iterator[Array]:
    """Yields what an op takes, as it takes it, that has examples, places and channels."""
    for at, operand in enumerate(passed.ops[number].operands if number is not None else ()):
        value = passed.operand(number, at) if number is not None and not operand.name else None
        if value is not None and value.ndim > 2 and value.dtype.kind == "f":
            yield value
