"""Names the op of each side at which two forward passes part, and the modules of the port that are wrong first."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from parity.locate.downstream import losses_of, readers, upstream
from parity.locate.op_kinds import joins, picks, same_kind
from parity.locate.sums import Sums
from parity.trace import ForwardOp

DRAWING = ("rand", "normal", "bernoulli", "multinomial", "dropout", "uniform", "truncated", "stateless")
# Of a dilated convolution in a graph: space to batch, convolution, batch to space.
MOST_BETWEEN = 2


class Side(NamedTuple):
    """One side's pass with what is known of its outputs.

    Fields:
      ops: in an order of execution.
      told: numbers of those whose output tells.
      reached: by op, the number of an op of the other side with the same numbers.
      wrong: numbers of those behind the difference.
    """

    ops: Sequence[ForwardOp]
    told: Collection[int]
    reached: Mapping[int, int]
    wrong: Collection[int]


class Parting(NamedTuple):
    """Where two forward passes part.

    Fields:
      reference, candidate: number of the first op of each side that is wrong though what it takes is right; None where a
        side has none: what it makes the other has too.
      module: path of the port's module that calls it, "" for the model itself or its loss; None without `candidate`.
      next_module: where a model or a container calls it between its modules, the path of the next one whose output is
        wrong; None elsewhere.
    """

    reference: int | None
    candidate: int | None
    module: str | None
    next_module: str | None


def part(reference: Side, candidate: Side, mapping: Mapping[str, Sequence[str]]) -> Parting:
    """Returns the ops at which two forward passes of one tower part.

    An op of the port is wrong where the reference never has its numbers nor those of anything computed from it; it is the
    first where what it takes is right. Of several the earliest in execution counts, and of the reference's the one
    that takes what that one takes.

    Args:
      reference: the reference's pass.
      candidate: the port's.
      mapping: dict of the reference's variable to the names of the port's parameters.
    """
    # Without what only joins, or adds up in another order, and with it where nothing else is wrong.
    one, two = Sums(reference.ops), Sums(candidate.ops)
    of_other_sums = two.parts_without_a_like(candidate.reached, one, reference.reached)
    arranging = _put_together(candidate, reference) | _cut_for_it(candidate)
    of_port = first_wrong(candidate, of_other_sums | arranging) or first_wrong(candidate)
    of_other_sums = one.parts_without_a_like(reference.reached, two, candidate.reached)
    of_reference = first_wrong(reference, of_other_sums) or first_wrong(reference)
    port = of_port[0] if of_port else None
    # Which of the reference's first ops belongs to the port's, what both take says.
    own = _nearest(port, of_reference, reference, candidate) if of_reference else None
    if own is not None:
        port = _idle(own, reference, candidate, mapping) or port
    if port is None:
        return Parting(own, None, None, None)
    return Parting(own, port, candidate.ops[port].name, _next_module(port, candidate))


def first_wrong(side: Side, arranging: Collection[int] = ()) -> list[int]:
    """Returns the numbers of the ops that are wrong though all that they take is right, in order; those before the loss.

    Args:
      side: whose ops they are.
      arranging: numbers of those that do not count.
    """
    # What no loss hangs on is computed, as for a summary, and trains nothing.
    needed = upstream(side.ops, losses_of(side.ops))
    # Ops whose output tells: a mask of zeros and ones is right and wrong by chance.
    counted = {number for number in side.wrong if number in needed and _counts(number, side)} - set(arranging)
    return [n for n in sorted(counted) if not any(each in counted for each in _behind_uncounted(n, side, counted))]


def _put_together(side: Side, other: Side) -> set[int]:
    """The ops that join what is right, where the other side joins nothing like it, and those that cut it up again.

    What is done to each part by itself in the reference a port may do to all at once: to join them is no difference.
    """
    sizes = {math.prod(other.ops[number].shape) for number in other.wrong if joins(other.ops[number])}
    found = set[int]()
    for number in sorted(side.wrong):
        op = side.ops[number]
        taken = [each for each in op.inputs if each in side.wrong and each in side.told]
        joined = joins(op) and len(op.inputs) > 1 and math.prod(op.shape) not in sizes
        if (joined or (picks(op) and taken)) and all(each in found for each in taken):
            found.add(number)
    return found


def _cut_for_it(side: Side) -> set[int]:
    """The ops that cut a fed batch for a tower, which no line of the user's does: what they give is what was fed.

    A loss may hang on it in the port alone, as a critic's of pictures does that is asked about both kinds at once.
    """
    return {n for n, op in enumerate(side.ops) if picks(op) and not op.inputs and not op.weights and op.line is None}


def differing_layers(
    reference: Side, candidate: Side, mapping: Mapping[str, Sequence[str]]
) -> tuple[list[int], list[int]]:
    """Returns the ops of each side that make other numbers of the same input with the same weights, whatever comes of them.

    A maximum or a choice behind such an op may be right all the same, for it does not see all of its output.

    Args:
      reference: the reference's pass.
      candidate: the port's.
      mapping: dict of the reference's variable to the names of the port's parameters.
    """
    found: tuple[list[int], list[int]] = [], []
    after = readers(reference.ops)
    for number, op in enumerate(candidate.ops):
        if not op.weights or not _differs(number, candidate):
            continue
        # In the reference's numbers, so that the two sides' inputs can be compared as sets.
        before = {candidate.reached[each] for each in _reached_before(number, candidate)}
        for own, other in enumerate(reference.ops):
            weights = {part for name in other.weights for part in mapping.get(name, ())}
            # The same weights, the same kind of op and the same right outputs in front: only what the op does is left.
            if weights == set(op.weights) and same_kind(other, op) and _reached_before(own, reference) == before:
                shown = _shown(own, math.prod(op.shape), reference, after)
                found[0].extend(shown)
                found[1].extend([number] if shown else [])
    return found


def _shown(number: int, size: int, side: Side, after: Sequence[Sequence[int]]) -> list[int]:
    """The op itself, and what is between it and the output that shows it: a dilated convolution is three ops in a graph."""
    shown = [number]
    while math.prod(side.ops[shown[-1]].shape) != size and len(after[shown[-1]]) == 1 and len(shown) <= MOST_BETWEEN:
        shown.append(after[shown[-1]][0])
    same = math.prod(side.ops[shown[-1]].shape) == size
    return shown if same and shown[-1] in side.told and shown[-1] not in side.reached else []


def _differs(number: int, side: Side) -> bool:
    inputs = side.ops[number].inputs
    return number in side.told and number not in side.reached and all(each in side.reached for each in inputs)


def _counts(number: int, side: Side) -> bool:
    """What is made of draws, and masks whose numbers say nothing, may well be made in another way."""
    return number in side.told and not is_drawn(number, side.ops)


def _behind_uncounted(number: int, side: Side, counted: Collection[int]) -> Iterator[int]:
    """Yields what an op takes, and what goes into that where it is wrong and does not count itself."""
    pending, seen = list(side.ops[number].inputs), set[int]()
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            yield each
            if each in side.wrong and each not in counted:
                pending += side.ops[each].inputs


def is_drawn(number: int, ops: Sequence[ForwardOp]) -> bool:
    """Whether an op's output is made of draws alone."""
    pending, drawn = [number], False
    while pending:
        op = ops[pending.pop()]
        if op.weights:
            return False
        own = op.kind.lower().startswith(DRAWING) and not op.operands
        if not op.inputs and not own:
            return False
        drawn = drawn or own
        pending += op.inputs
    return drawn


def _nearest(port: int | None, starts: Sequence[int], reference: Side, candidate: Side) -> int:
    """Of the reference's ops the one that takes what the port's takes; the first where none does."""
    if port is None:
        return starts[0]
    # The nearest outputs in front of the port's op that both sides have, by the reference's numbers.
    taken = {candidate.reached[each] for each in _reached_before(port, candidate)}

    def share(number: int) -> float:
        own = _reached_before(number, reference)
        # Of all that either takes, what both take: 1 where they take the same and nothing else.
        return len(own & taken) / max(len(own | taken), 1)

    # Of equal shares the first in execution.
    best = max(starts, key=share)
    return best if share(best) else starts[0]


def _reached_before(number: int, side: Side) -> set[int]:
    """The nearest outputs before an op that the other side has too."""
    pending, found, seen = list(side.ops[number].inputs), set[int](), set[int]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in side.reached:
            found.add(each)
        else:
            pending += side.ops[each].inputs
    return found


def _idle(number: int, reference: Side, candidate: Side, mapping: Mapping[str, Sequence[str]]) -> int | None:
    """The port's op in the place of one of the reference's that gives what that one takes: a bias of zero, a factor of 1."""
    op = reference.ops[number]
    weights = {part for name in op.weights for part in mapping.get(name, ())}
    for place, other in enumerate(candidate.ops):
        if candidate.reached.get(place, -1) not in op.inputs:
            continue
        taken = {candidate.reached.get(each) for each in other.inputs}
        # It takes what it gives, as a sum with zeros does.
        idle = candidate.reached[place] in taken and same_kind(op, other) and not op.weights
        if idle or (weights and weights <= set(other.weights)):
            return place
    return None


def _next_module(number: int, side: Side) -> str | None:
    """The next module with a wrong output, where the one that calls an op has modules of its own."""
    path = side.ops[number].name
    if not any(_is_inside(op.name, path) for op in side.ops):
        return None
    after, behind = readers(side.ops), {number}
    for each in range(number, len(side.ops)):
        if each in behind:
            behind.update(after[each])
            own = side.ops[each].name
            # Not the calling module itself, nor one that contains it.
            if each in side.wrong and own != path and not _is_inside(path, own):
                return own
    return None


def _is_inside(path: str, container: str) -> bool:
    return path != container and (not container or path.startswith(f"{container}."))
