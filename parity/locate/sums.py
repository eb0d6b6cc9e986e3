"""Finds the parts of longer sums and products that the other side's pass has no like of: it adds up in another order."""

import math
from collections.abc import Mapping, Sequence

from parity.locate.downstream import readers
from parity.trace import ForwardOp

# What may be done in any order, with what turns one of it round: a sum and a difference, a product and a quotient.
KINDS_OF_SUM = frozenset(["add", "addn", "addv2", "sub", "rsub", "neg"])
KINDS_OF_PRODUCT = frozenset(["mul", "div", "realdiv", "truediv", "rdiv", "multiply", "divide"])
ANY_ORDER = (KINDS_OF_SUM, KINDS_OF_PRODUCT)


def parts_in_another_order(
    ops: Sequence[ForwardOp],
    reached: Mapping[int, int],
    other: Sequence[ForwardOp],
    reached_by_other: Mapping[int, int],
) -> set[int]:
    """Returns the numbers of the ops that are a part of a longer sum, or product, of which the other side has no like.

    (a + b) + c and a + (b + c) are one sum, and neither a + b nor b + c is a difference between them. A part that adds
    up the same terms on both sides is one of both, and tells; but not with numbers that no op gives, which one side may
    add to another part.

    Args:
      ops: of a side's pass, in an order of execution.
      reached: by op, the number of an op of the other side with the same numbers.
      other: the other side's ops.
      reached_by_other: the same of these.
    """
    own, others, terms = _Sums(ops), _Sums(other), set[tuple[int, frozenset[int]]]()
    for number, family in others.families.items():
        added = others.terms(number) or set()
        # As the first op of the other side with these numbers, however many have them.
        named = [reached.get(reached_by_other[each], each) if each in reached_by_other else each for each in added]
        terms.add((family, frozenset(named)))
    parts = set[int]()
    for number, family in own.families.items():
        if not own.is_part(number):
            continue
        found = own.terms(number)
        if found is None:
            parts.add(number)
            continue
        # What the other side has not is a difference by itself, and comes before the sums that it goes into.
        if (family, frozenset(reached.get(each, -1 - each) for each in found)) not in terms:
            parts.add(number)
    return parts


def _is_layer(op: ForwardOp) -> bool:
    """Whether an op adds a bias or multiplies by a scale, which ends a sum.

    What is made of weights for every example, or is one number, as a determinant is, is a term as any other; a bias is
    spread over the examples.
    """
    spread = [each for each in op.operands if each.op is None and math.prod(each.shape) > 1 and each.shape != op.shape]
    return bool(op.weights) and (bool(spread) or not op.operands)


class _Sums:
    def __init__(self, ops: Sequence[ForwardOp]) -> None:
        self._ops = ops
        self._readers = readers(ops)
        self.families = {
            number: family
            for number, op in enumerate(ops)
            for family, kinds in enumerate(ANY_ORDER)
            if op.kind.strip("_").lower() in kinds and not _is_layer(op)
        }

    def is_part(self, number: int) -> bool:
        """Whether nothing takes an op's output but one more op of the same sum."""
        after = self._readers[number]
        return len(after) == 1 and self.families.get(after[0]) == self.families[number]

    def terms(self, number: int) -> set[int] | None:
        """The ops whose outputs a sum is of; None where it is of other numbers too."""
        found, pending = set[int](), [number]
        while pending:
            op = self._ops[pending.pop()]
            if any(each.op is None for each in op.operands):
                return None
            for each in op.inputs:
                inside = each in self.families and self.is_part(each) and self.families[each] == self.families[number]
                (pending.append if inside else found.add)(each)
        return found
