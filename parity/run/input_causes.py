"""Looks at what goes into the ops at which two forward passes part."""

import numpy as np

from parity.causes.at_inputs import broadcast, other_input
from parity.judge.numbers import Array
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.behind import active, readers
from parity.locate.kinds import same_kind
from parity.locate.reached import Pass
from parity.trace import ForwardOp

MOST_BETWEEN = 8  # ops of a port behind where it parts among which a layer is looked for


def cause_of_input(place: Location) -> Cause | None:
    """Returns the cause where a port shifts or scales what goes into a first layer, None where that is not proven.

    Args:
      place: where the passes part.
    """
    own, start = place.parting.reference, place.parting.candidate
    if own is None or start is None:
        return None
    (one, two), layer = place.passes, place.passes[0].ops[own]
    if not layer.weights or set(layer.inputs) & active(one.ops):
        return None
    reading = _layer_behind(start, place, layer)
    before = _data(one, own) if reading is not None else None
    after = _data(two, reading) if reading is not None else None
    if before is None or after is None:
        return None
    lines = tuple(op.line.shown if op.line else op.kind for op in (two.ops[start], layer))
    return other_input(place.layer, before, after, (lines[0], lines[1]))


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
    if two.ops[start].kind == "expand" and readers(two.ops)[start]:
        number = readers(two.ops)[start][0]
    reference, candidate = _taken(one, own), _taken(two, number)
    ops = one.ops[own], two.ops[number]
    lines = " / ".join(op.line.shown if op.line else op.kind for op in ops[::-1])
    made = int(np.prod(ops[1].shape))
    return broadcast(reference, candidate, made, "loss_reduction" if of_loss else "op_left_out", lines)


def _layer_behind(start: int, place: Location, like: ForwardOp) -> int | None:
    """The port's first op of a layer's kind that takes what comes of an op, no other layer between."""
    ops, after = place.passes[1].ops, readers(place.passes[1].ops)
    pending, seen = [start], set[int]()
    while pending and len(seen) < MOST_BETWEEN:
        number = min(pending)
        pending.remove(number)
        seen.add(number)
        if ops[number].weights:
            if same_kind(like, ops[number]):
                return number
        else:
            pending += [each for each in after[number] if each not in seen]
    return None


def _data(passed: Pass, number: int) -> Array | None:
    """What an op takes that is no weight, where that is one tensor."""
    op = passed.ops[number]
    found = [
        at
        for at, each in enumerate(op.operands)
        if each.shape and not any(each.name.startswith(weight) for weight in op.weights)
    ]
    return passed.operand(number, found[0]) if len(found) == 1 else None


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
