"""Looks for the cause of a difference at the ops at which two forward passes part."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parity.diagnose.agreement import CLOSE
from parity.diagnose.detectors.aggregation import is_power_of_two
from parity.diagnose.edits.cause import done_later, is_done_later
from parity.diagnose.edits.edit import is_loss, name_without
from parity.diagnose.edits.search import is_whole, repaired
from parity.diagnose.edits.side import Side
from parity.diagnose.layers.op import Op, Taken, at_op
from parity.diagnose.located.op_inputs import cause_of_broadcast
from parity.diagnose.ops.rearranging import LAYOUTS
from parity.diagnose.ops.table import plain
from parity.judge.result import Cause
from parity.locate import Location
from parity.locate.downstream import behind_difference, losses_of, upstream
from parity.locate.layouts import same_in_some_layout
from parity.locate.matching import Pass
from parity.trace import ForwardOp
from parity.trace.arrays import Array

PROVEN_BY_BOTH = (
    "what goes in is the same on both sides, to rounding, and what comes out is not: all before it is right"
)
PROVEN_BY_PORT = (
    "the reference has all that goes into the port's line, to rounding, and nothing like what comes out of it"
)
MOST_OPS_AHEAD = 12  # behind an op, in which what it does may be done later
BOTH = 2  # what a sum takes
SIZE_OF_CONSTANT = 1  # numbers of which none tells whether two operands are one: constants


def cause_at_op(place: Location) -> Cause | None:
    """Returns what the two sides compute where their passes part, None where that is not proven.

    Args:
      place: where they part.
    """
    own, other = place.parting.reference, place.parting.candidate
    if own is None or other is None:
        return None
    broadcast = cause_of_broadcast(place, not place.layer)
    if broadcast is not None:
        return broadcast
    reference, candidate = (_op(passed, number) for passed, number in zip(place.passes, (own, other), strict=True))
    if reference is None or candidate is None:
        return None
    passed = place.passes[0]
    readers = (_op(passed, number) for number in _readers(passed, own))
    alike = _fed_alike(place, reference, candidate)
    proven = PROVEN_BY_BOTH if alike else PROVEN_BY_PORT if _fed_rightly(place, candidate) else ""
    cause = at_op(reference, candidate, proven, [each for each in readers if each])
    # What is beside it may be what the reference has there, done in another order.
    if cause is None or cause.name != "op_left_out":
        return cause
    if is_done_later(place.passes[0], own, place.passes[1], other):
        return done_later(cause, _sides(place), own, not place.layer)
    if not is_whole(_sides(place)[1], other):
        return None
    # A loss function of two subtracts by itself what both are multiplied by before.
    if plain(reference.kind) == "sub" and any(
        is_loss(place.passes[1].ops[n].kind) for n in _readers(place.passes[1], other)
    ):
        return None
    return _behind_what_is_passed_by(replace(cause, name=name_without({plain(reference.kind)}, not place.layer)), place)


def cause_by_one_change(place: Location, of_loss: bool) -> Cause | None:
    """Returns the one change of a pass that makes the other side's numbers of it, None where there is none.

    Args:
      place: where they part.
      of_loss: whether it is the loss that differs, and no output.
    """
    one, other = _sides(place)
    return _behind_what_is_passed_by(repaired(one, other, of_loss), place)


def _behind_what_is_passed_by(cause: Cause | None, place: Location) -> Cause | None:
    """Returns a sum that is left out around some layers at the last of these; any other cause as it is.

    What takes the output of these layers is only where it shows, and may be another module's: the port lacks the sum
    where they end.
    """
    own, other = place.parting.reference, place.parting.candidate
    if cause is None or cause.name != "op_left_out" or cause.op is not None or own is None or other is None:
        return cause
    reference, candidate = place.passes
    added = [place.reached.reference.get(each) for each in reference.ops[own].inputs]
    if plain(reference.ops[own].kind) != "add" or len(added) != BOTH or None in added:
        return cause
    first, last = sorted(each for each in added if each is not None)
    around = first in upstream(candidate.ops, [last]) and last in candidate.ops[other].inputs
    return replace(cause, op=last) if around and _ends_elsewhere(candidate.ops[last], candidate.ops[other]) else cause


def _ends_elsewhere(giver: ForwardOp, taker: ForwardOp) -> bool:
    """Whether what lies between two ops of the port is shown by the first of them rather than by what takes it.

    A module that is called where the layers are called, such as a norm behind them, is in the line, or right behind the
    line, where the sum is missing. What takes it in another module, or in the next step of a loop, is not.
    """
    container, _, _ = taker.name.rpartition(".")
    if container and not f"{giver.name}.".startswith(f"{container}."):
        return True
    one, two = giver.line, taker.line
    if one is None or two is None or (one.file, one.function) != (two.file, two.function):
        return False
    return two.line < one.line


def scale_of_loss(place: Location) -> float | None:
    """Returns the power of two that the port's loss is multiplied by in its last op, as loss scales are; None elsewhere.

    A power of two that is a number of something in the pass, such as of pixels, may be a sum for a mean.

    Args:
      place: where the passes part, behind all layers.
    """
    passed = place.passes[1]
    number = losses_of(passed.ops)[0]
    # A regularisation of 0 may be added behind the scale: what changes nothing is skipped.
    while plain(passed.ops[number].kind) == "add" and len(passed.ops[number].inputs) == 1:
        before = passed.ops[number].inputs[0]
        if not np.array_equal(passed.value(before), passed.value(number)):  # type: ignore[arg-type]
            return None
        number = before
    op = passed.ops[number]
    if plain(op.kind) != "mul" or len(op.inputs) != 1 or op.weights or number != place.parting.candidate:
        return None
    given = [each for each in _numbers_of(passed, number) if is_power_of_two(each)]
    # 4,096 may be a loss scale, or the pixels of an image that a mean was not divided by.
    counts = {math.prod(each.shape) for each in passed.ops} | {size for each in passed.ops for size in each.shape}
    return given[0] if len(given) == 1 and given[0] not in counts else None


def _numbers_of(passed: Pass, number: int) -> Iterator[float]:
    """Yields the constants that an op takes."""
    op = passed.ops[number]
    yield from (float(v) for k, v in op.attributes.items() if k.isdigit() and isinstance(v, int | float))
    for at, operand in enumerate(op.operands):
        value = passed.operand(number, at) if operand.op is None else None
        if value is not None and value.size == SIZE_OF_CONSTANT:
            yield float(value.reshape(()))


def _sides(place: Location) -> list[Side]:
    starts = place.parting.reference, place.parting.candidate
    known = place.reached.reference, place.reached.candidate
    return [
        Side(
            passed,
            start,
            frozenset(behind_difference(passed.ops, told, reached)),
            frozenset(reached),
            told,
        )
        for passed, start, told, reached in zip(place.passes, starts, place.reached.told, known, strict=True)
    ]


def _op(passed: Pass, number: int) -> Op | None:
    op = passed.ops[number]
    if op.line is None or not op.operands:
        return None
    taken = []
    for place, operand in enumerate(op.operands):
        value = passed.operand(number, place)
        source = passed.ops[operand.op].line if operand.op is not None else None
        # A number that is made of weights, such as a penalty, is no constant.
        of_data = operand.op is not None or bool(op.weights) or (value is not None and value.size > SIZE_OF_CONSTANT)
        taken.append(Taken(operand.place, value, of_data, source.alone if source else ""))
    return Op(op.kind, op.attributes, taken, passed.value(number), op.line.alone, list(_later(passed, number)))


def _readers(passed: Pass, number: int) -> Iterator[int]:
    """Yields the ops that take the output of one, as it is or laid out anew."""
    laid_out = {number}
    for each, op in enumerate(passed.ops):
        if laid_out & set(op.inputs):
            yield each
            if plain(op.kind) in LAYOUTS:
                laid_out.add(each)


def _later(passed: Pass, number: int) -> Iterator[Array]:
    """Yields the outputs of one shape that come of an op soon."""
    behind = {number}
    # Of the op's own shape only: what is done to it later, in another order.
    for each in range(number + 1, min(number + MOST_OPS_AHEAD, len(passed.ops))):
        if behind & set(passed.ops[each].inputs):
            behind.add(each)
            value = passed.value(each)
            if value is not None and list(value.shape) == passed.ops[number].shape:
                yield value


def _fed_alike(place: Location, reference: Op, candidate: Op) -> bool:
    """Whether all that each of the two takes is known, and the other side has it, and they have something in common."""
    own, other = _arrays(reference), _arrays(candidate)
    if own is None or other is None or not any(same_in_some_layout(one, two, CLOSE) for one in own for two in other):
        return False
    anywhere = [list(_known(passed)) for passed in place.passes]
    # Both ways: what either op takes is somewhere in the other pass, so that all before the two is right.
    return all(
        any(same_in_some_layout(each, known, CLOSE) for known in [*other, *anywhere[1]]) for each in own
    ) and all(any(same_in_some_layout(known, each, CLOSE) for known in [*own, *anywhere[0]]) for each in other)


def _fed_rightly(place: Location, candidate: Op) -> bool:
    """Whether all that the candidate's op takes is known, some of it computed, and the reference has it."""
    taken = _arrays(candidate)
    if not taken or not any(each.line for each in candidate.takes):
        return False
    anywhere = list(_known(place.passes[0]))
    return all(any(same_in_some_layout(known, each, CLOSE) for known in anywhere) for each in taken)


def _arrays(op: Op) -> list[Array] | None:
    values = [each.value for each in op.takes if each.of_data]
    return [value for value in values if value is not None] if all(value is not None for value in values) else None


def _known(passed: Pass) -> Iterator[Array]:
    for number, op in enumerate(passed.ops):
        value = passed.value(number)
        if value is not None:
            yield value
        for place, operand in enumerate(op.operands):
            taken = passed.operand(number, place) if operand.op is None else None
            if taken is not None and taken.size > SIZE_OF_CONSTANT:
                yield taken
