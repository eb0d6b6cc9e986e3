"""Follows numbers that stand in other places back to the op of the port that puts them there."""

from collections.abc import Mapping, Sequence

import numpy as np

from parity.locate.layouts import same_in_some_layout
from parity.locate.matching import Pass, alike, partners
from parity.locate.search import Location
from parity.trace import LaidOut

CLOSE_IN_LAYOUT = 1e-9  # of outputs in one layout, relative: right ports are at most 6e-12 apart behind 40 layers
MOST_OPS_BACK = 24  # ops
FEWEST_MOVED = 8  # numbers: of so many the same ones stand in other places by chance once in 8! = 40,320 times


def at_the_mover(place: Location) -> Location:
    """Returns the location at the port's op that puts numbers of the reference in other places; the same if none does.

    Args:
      place: where the first op is that takes them so, on both sides: what comes of it differs.
    """
    reference, candidate = place.passes
    number = place.parting.candidate
    if number is None:
        return place
    # By op of the candidate those of the reference with the same numbers, in whatever places.
    same, own = partners(candidate, reference), place.parting.reference
    # Back while what goes in is moved too: the first op whose inputs stand where they should is the mover.
    for _ in range(MOST_OPS_BACK):
        before = next((n for n in candidate.ops[number].inputs if _is_moved(n, same, reference, candidate)), None)
        if before is None:
            break
        # The first partner: all of them hold the same numbers.
        number, own = before, same[before][0]
    laid_out = _laid_out_before(number, own, same, place.passes)
    if own is None or (number == place.parting.candidate and laid_out is None):
        return place
    port = candidate.ops[number]
    made_by = _module_of_moved(number, own, place.passes)
    port = port._replace(name=made_by) if made_by else port
    if laid_out is not None:
        port = port._replace(name=laid_out.name, kind=laid_out.kind, line=laid_out.line)
    parting = place.parting._replace(reference=own, candidate=number, module=port.name, next_module=None)
    return place._replace(op=reference.ops[own], port=port, parting=parting)


def in_front(place: Location, number: int | None) -> Location:
    """Returns the location at an op of the port in front of the first that is wrong; the same where it is not in front.

    Args:
      place: where the passes part.
      number: of an op of the port whose output the reference has too, or None.
    """
    first, own = place.parting.candidate, place.reached.candidate.get(-1 if number is None else number)  # -1 is no op
    if number is None or first is None or own is None or number >= first:
        return place
    reference, candidate = place.passes
    port = candidate.ops[number]
    parting = place.parting._replace(reference=own, candidate=number, module=port.name, next_module=None)
    return place._replace(op=reference.ops[own], port=port, parting=parting)


def _laid_out_before(
    number: int, own: int | None, same: Mapping[int, Sequence[int]], passes: tuple[Pass, Pass]
) -> LaidOut | None:
    """How what an op takes was laid out, where the reference's op takes the same numbers in other places; else None."""
    reference, candidate = passes
    wanted = [reference.operand(own, at) for at in range(len(reference.ops[own].operands))] if own is not None else []
    for at, operand in enumerate(candidate.ops[number].operands):
        value = candidate.operand(number, at)
        if operand.laid_out is None or operand.op not in same or value is None:
            continue
        alike = [each for each in wanted if each is not None and each.size == value.size]
        # Two orders of the axes of one array are no move: some layout has to fail them all.
        if alike and not any(same_in_some_layout(each, value, CLOSE_IN_LAYOUT) for each in alike):
            return operand.laid_out
    return None


def _module_of_moved(number: int, own: int, passes: tuple[Pass, Pass]) -> str:
    """The module whose weights alone make what an op takes, in other places than the reference's op; "" if there is none.

    What is made of no data, such as a projection of a table of positions, is no op of a pass: its module is all that is
    known of it.
    """
    reference, candidate = passes
    op = candidate.ops[number]
    if len(op.weights) != 1:
        return ""
    for at, operand in enumerate(op.operands):
        made = candidate.operand(number, at) if operand.op is None and operand.name not in op.weights else None
        wanted = [
            value
            for there, each in enumerate(reference.ops[own].operands)
            if each.op is None and (value := reference.operand(own, there)) is not None
        ]
        if made is None or made.size < FEWEST_MOVED or made.dtype.kind != "f":
            continue
        numbers = np.sort(made, axis=None)
        same = [
            each
            for each in wanted
            if each.size == made.size and alike(np.sort(each, axis=None), numbers, CLOSE_IN_LAYOUT)
        ]
        if same and not any(same_in_some_layout(each, made, CLOSE_IN_LAYOUT) for each in same):
            return op.weights[0].rpartition(".")[0]
    return ""


def _is_moved(number: int, same: Mapping[int, Sequence[int]], reference: Pass, candidate: Pass) -> bool:
    """Whether the reference has the numbers of an output, and nowhere in their places."""
    made = candidate.value(number)
    if made is None or number not in same:
        return False
    values = [reference.value(other) for other in same[number]]
    return not any(value is not None and same_in_some_layout(value, made, CLOSE_IN_LAYOUT) for value in values)
