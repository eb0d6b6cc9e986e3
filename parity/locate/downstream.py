"""Walks a forward pass: which outputs lie behind the difference, and where it begins."""

from collections.abc import Collection, Iterable, Sequence

from parity.locate.op_kinds import picks, reduces
from parity.trace import LOSS, ForwardOp


def active(ops: Sequence[ForwardOp]) -> set[int]:
    """Returns the numbers of the ops whose output depends on data and on weights."""
    found: set[int] = set()
    # In an order of execution what an op takes is known here.
    for number, op in enumerate(ops):
        if op.weights or any(each in found for each in op.inputs):
            found.add(number)
    return found


def behind_difference(ops: Sequence[ForwardOp], told: Collection[int], reached: Collection[int]) -> set[int]:
    """Returns the numbers of the ops from which nothing is computed that the other side reaches, nor are they reached.

    Of an op whose output does not tell, what is computed from it does: it lies behind where any of that does. A mean, or
    another reduction, may be the same though what it is taken of is not: of a product behind a norm the mean is made of
    weights alone. So may a part be the same that is cut out, and a gradient, which of ReLUs sees no more than their sides.
    What is right by such an op alone says nothing where something else that is computed from the same lies behind.

    Args:
      ops: in an order of execution.
      told: numbers of those whose output tells.
      reached: numbers of those that the other side reaches.
    """
    after = readers(ops)
    proven: set[int] = set()
    presumed: set[int] = set()
    wrong: set[int] = set()
    # From the end: all that is computed of an op has been judged before it.
    for number in reversed(range(len(ops))):
        found = after[number]
        apart = any(each in wrong for each in found)
        if number in reached or any(each in proven and not _hides(ops[each]) for each in found):
            proven.add(number)
        elif not apart and any(each in proven or each in presumed for each in found):
            presumed.add(number)
        elif number in told or apart:
            wrong.add(number)
    return wrong


def _hides(op: ForwardOp) -> bool:
    """Whether an op may give the same of other numbers."""
    return reduces(op) or picks(op) or op.kind == "grad"


def losses_of(ops: Sequence[ForwardOp]) -> list[int]:
    """Returns the numbers of the ops that give the loss: of the last scalar, where no op is said to."""
    told = [number for number, op in enumerate(ops) if op.attributes.get(LOSS)]
    scalars = [number for number, op in enumerate(ops) if not op.shape and op.inputs]
    # In a graph the loss is marked; in a pass of torch it is the last scalar that is computed.
    return told or scalars[-1:] or [len(ops) - 1]


def upstream(ops: Sequence[ForwardOp], numbers: Iterable[int]) -> set[int]:
    """Returns the numbers of all ops that some are computed from, these included.

    Args:
      ops: in an order of execution.
      numbers: of those.
    """
    pending, seen = list(numbers), set[int]()
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            pending += ops[number].inputs
    return seen


def nearest_weights(ops: Sequence[ForwardOp], op: ForwardOp) -> set[str]:
    """Returns the names of the weights that an op takes, and of those that make what it takes, with no others in between.

    Args:
      ops: in an order of execution.
      op: one of them.
    """
    found, pending, seen = set(op.weights), list(op.inputs), set[int]()
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            found.update(ops[number].weights)
            pending += [] if ops[number].weights else ops[number].inputs
    return found


def readers(ops: Sequence[ForwardOp]) -> list[list[int]]:
    """Returns by op the numbers of the ops that take its output."""
    after: list[list[int]] = [[] for _ in ops]
    for number, op in enumerate(ops):
        for each in op.inputs:
            after[each].append(number)
    return after


def beginnings(ops: Sequence[ForwardOp], behind: set[int], among: set[int]) -> list[int]:
    """Returns, in order, the numbers of the ops behind the difference of whose inputs none is.

    Args:
      ops: in an order of execution.
      behind: numbers of those behind the difference.
      among: numbers of those that count.
    """
    counted = behind & among
    return [number for number in sorted(counted) if not any(each in counted for each in ops[number].inputs)]


def followers(ops: Sequence[ForwardOp], number: int, most: int) -> list[int]:
    """Returns the chain of ops behind one, each the only one that takes the output before it, as long as the shape stays.

    Args:
      ops: in an order of execution.
      number: of the first.
      most: how many.
    """
    after = readers(ops)
    chain: list[int] = []
    while len(chain) < most:
        following = after[number]
        # Two readers are a branch, and another shape another layer.
        if len(following) != 1 or ops[following[0]].shape != ops[number].shape:
            break
        number = following[0]
        chain.append(number)
    return chain
