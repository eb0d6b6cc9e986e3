"""Looks at what goes into the ops at which two forward passes part, weights among them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from parity.diagnose.layers.op_inputs import Read, broadcast, other_input
from parity.diagnose.layers.weights import OfAWeight, other_function
from parity.diagnose.ops.table import plain
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.downstream import active, readers, upstream
from parity.locate.matching import Pass
from parity.locate.op_kinds import same_kind
from parity.trace.arrays import Array

UNNAMED = "what goes in"
ANY_PADDING = frozenset(["pad", "padv2", "mirrorpad", "constant_pad_nd"])


def cause_of_input(place: Location, feeds: Sequence[str]) -> Cause | None:
    """Returns what the port does to an input where it reads it, None where it reads it as the reference does.

    Args:
      place: where the passes part.
      feeds: names of the reference's inputs.
    """
    for read in inputs_read(place, feeds):
        cause = other_input(read)
        if cause is not None:
            return cause
    return None


def inputs_read(place: Location, feeds: Sequence[str]) -> Iterator[Read]:
    """Yields the inputs that the reference's first wrong op reads, each with what the port may read in its place.

    Args:
      place: where the passes part.
      feeds: names of the reference's inputs.
    """
    reference, candidate = place.passes
    number, of_weights = reference.ops.index(place.op), active(reference.ops)
    # What takes something of a layer beside the input is found by that; the first layer, which takes data alone, by
    # kind.
    known = [each for each in reference.ops[number].inputs if each in of_weights]
    numbers = list(_beside(place, known) if known else _first_layers(place))
    # What the port's counterpart takes; an input that it reads elsewhere is none of this place.
    found = [value for each in numbers for value in _of_data(candidate, each)]
    reading = [candidate.ops[each] for each in numbers[:1]]
    lines = " / ".join(op.line.alone for op in [*reading, place.op] if op.line is not None)
    for name, own in _inputs(reference, number, of_weights, feeds):
        if known and not name:
            continue
        alike = [each for each in found if each.size == own.size]
        yield Read(name or UNNAMED, place.layer or plain(place.op.kind), own, alike, lines, not known)


def cause_of_broadcast(place: Location, of_loss: bool) -> Cause | None:
    """Returns the cause where a port broadcasts what the reference takes one by one, None where it does not.

    Args:
      place: where the passes part.
      of_loss: whether that is behind all layers.
    """
    own, start = place.parting.reference, place.parting.candidate
    if own is None or start is None:
        return None
    (one, two), number = place.passes, start
    # torch expands in an op of its own in front of the one that broadcasts.
    if two.ops[start].kind == "expand" and readers(two.ops)[start]:
        number = readers(two.ops)[start][0]
    reference, candidate = _taken(one, own), _taken(two, number)
    ops = one.ops[own], two.ops[number]
    lines = " / ".join(op.line.alone if op.line else op.kind for op in ops[::-1])
    made = int(np.prod(ops[1].shape))
    return broadcast(reference, candidate, made, "loss_reduction" if of_loss else "op_left_out", lines)


def _inputs(passed: Pass, number: int, of_weights: set[int], feeds: Sequence[str]) -> Iterator[tuple[str, Array]]:
    """Yields what an op takes that is made of inputs, as it was made, and the name of the input, "" of several."""
    op = passed.ops[number]
    for at, operand in enumerate(op.operands):
        value = passed.operand(number, at)
        # One number is a setting that is fed, such as a rate or a flag, and nothing that an input is compared with.
        if value is None or value.size < 2 or operand.name in op.weights:
            continue
        if operand.name in feeds:
            yield operand.name, value
        for each in op.inputs if not operand.name else []:
            made = passed.value(each) if each not in of_weights and operand.op in (None, each) else None
            if made is not None and np.array_equal(made.reshape(-1), value.reshape(-1)):
                names = _names(passed, each, feeds)
                yield names[0] if len(names) == 1 else "", made


def _names(passed: Pass, number: int, feeds: Sequence[str]) -> list[str]:
    """The inputs of which an op is computed."""
    taken = (operand.name for each in upstream(passed.ops, [number]) for operand in passed.ops[each].operands)
    return sorted(set(taken) & set(feeds))


def _beside(place: Location, known: Sequence[int]) -> Iterator[int]:
    """Yields the port's ops of that kind that take what the reference's op is known to take of layers."""
    _, candidate = place.passes
    after = readers(candidate.ops)
    for partner in (place.reached.reference.get(each) for each in known):
        for number in after[partner] if partner is not None else []:
            if plain(candidate.ops[number].kind) == plain(place.op.kind):
                yield number


def _first_layers(place: Location) -> Iterator[int]:
    """Yields the port's wrong ops of that kind that take data alone."""
    _, candidate = place.passes
    of_weights = active(candidate.ops)
    for number in sorted(of_weights - place.reached.candidate.keys()):
        op = candidate.ops[number]
        if not of_weights & set(op.inputs) and same_kind(place.op, op):
            yield number


def _of_data(passed: Pass, number: int) -> Iterator[Array]:
    """Yields what an op takes that no weight goes into, and what that was before it was padded."""
    op, of_weights = passed.ops[number], active(passed.ops)
    for at, operand in enumerate(op.operands):
        value = passed.operand(number, at)
        if value is None or operand.name in op.weights or operand.op in of_weights:
            continue
        yield value
        source = operand.op
        while source is not None and plain(passed.ops[source].kind) in ANY_PADDING:
            source = next(iter(passed.ops[source].inputs), None)
            before = passed.value(source) if source is not None else None
            if before is not None:
                yield before


def _taken(passed: Pass, number: int) -> list[Array]:
    """What an op takes, each tensor as it was before it was expanded; nothing where one of them is not known."""
    found = list[Array]()
    for at, operand in enumerate(passed.ops[number].operands):
        source = operand.op
        expanded = source is not None and passed.ops[source].kind == "expand" and passed.ops[source].operands
        value = passed.operand(source, 0) if source is not None and expanded else passed.operand(number, at)
        if value is None:
            return []
        found.append(value)
    return found


def cause_of_weights(place: Location, variables: Mapping[str, Array]) -> Cause | None:
    """Returns what the port makes of a weight otherwise than the reference before an op takes it, None where it does not.

    Args:
      place: where the passes part.
      variables: dict of the reference's variable to its value before the step.
    """
    found = (other_function(each) for each in weights_taken(place, variables))
    return next((cause for cause in found if cause is not None), None)


def weights_taken(place: Location, variables: Mapping[str, Array]) -> Iterator[OfAWeight]:
    """Yields what the ops at which the passes part take that may be made of a weight, with each weight that it may be of.

    Args:
      place: where the passes part.
      variables: dict of the reference's variable to its value before the step.
    """
    own, other = place.parting.reference, place.parting.candidate
    if own is None or other is None:
        return
    ops = place.passes[0].ops[own], place.passes[1].ops[other]
    lines = " / ".join(op.line.alone for op in ops[::-1] if op.line is not None)
    read = {name: variables[name] for name in ops[0].weights if name in variables}
    for one in _of_no_data(place.passes[0], own):
        for two in _of_no_data(place.passes[1], other):
            for name, value in read.items():
                # As many numbers as the weight has: a function of each number, or another order of them.
                if one.size == two.size == value.size:
                    gains = [each for key, each in read.items() if key != name and each.ndim == 1]
                    yield OfAWeight(name, value, one, two, lines, gains)


def _of_no_data(passed: Pass, number: int) -> Iterator[Array]:
    """Yields what an op takes that is no op's output, where it reads weights."""
    op = passed.ops[number]
    for at, operand in enumerate(op.operands if op.weights else ()):
        value = passed.operand(number, at) if operand.op is None else None
        if value is not None and value.size > 1 and value.dtype.kind == "f":
            yield value
