"""Finds the parts of longer sums and products that the other side's pass has no like of: it adds up in another order."""

import math
from collections.abc import Mapping, Sequence

from parity.locate.downstream import readers
from parity.locate.op_kinds import any_order
from parity.trace import ForwardOp

MOST_TERMS = 64  # of a part whose like is looked for: each is kept with all its terms, and a longer one tells nothing


class Sums:
    """The sums and products of a pass, with what each is of.

    Args:
      ops: in an order of execution.
    """

    def __init__(self, ops: Sequence[ForwardOp]) -> None:
        self._ops = ops
        self._readers = readers(ops)
        self._kinds = {
            number: kind for number, op in enumerate(ops) if (kind := any_order(op)) is not None and not _ends_a_sum(op)
        }

    def parts_without_a_like(self, reached: Mapping[int, int], other: "Sums", by_other: Mapping[int, int]) -> set[int]:
        """Returns the numbers of the ops that are a part of a longer sum, or product, of which the other side has no like.

        (a + b) + c and a + (b + c) are one sum, and neither a + b nor b + c is a difference between them. A part that
        adds up the same terms on both sides is one of both, and tells; but not with numbers that no op gives, which one
        side may add to another part.

        Args:
          reached: by op, the number of an op of the other side with the same numbers.
          other: the other side's.
          by_other: by op of the other side, the number of an op of this one with the same numbers.
        """

        def named(number: int) -> int:
            # As the first op of the other side with these numbers, however many have them.
            return reached.get(by_other[number], number) if number in by_other else number

        known = {
            (kind, frozenset(map(named, terms)))
            for number, kind in other._kinds.items()
            if (terms := other._terms(number)) is not None
        }
        # What the other side has not is a difference by itself, and comes before the sums that it goes into.
        return {
            number
            for number, kind in self._kinds.items()
            if self._is_part(number)
            and (
                (terms := self._terms(number)) is None
                or (kind, frozenset(reached.get(each, -1 - each) for each in terms)) not in known
            )
        }

    def _is_part(self, number: int) -> bool:
        """Whether nothing takes an op's output but one more op of the same sum."""
        after = self._readers[number]
        return len(after) == 1 and self._kinds.get(after[0]) == self._kinds[number]

    def _terms(self, number: int) -> set[int] | None:
        """The ops whose outputs a sum is of; None where it is of other numbers too, or of more than MOST_TERMS."""
        found, pending = set[int](), [number]
        while pending and len(found) <= MOST_TERMS:
            op = self._ops[pending.pop()]
            if any(each.op is None for each in op.operands):
                return None
            for each in op.inputs:
                inside = each in self._kinds and self._is_part(each) and self._kinds[each] == self._kinds[number]
                (pending.append if inside else found.add)(each)
        return found if len(found) <= MOST_TERMS else None


def _ends_a_sum(op: ForwardOp) -> bool:
    """Whether an op adds a bias or multiplies by a scale.

    What is made of weights for every example, or is one number, as a determinant is, is a term as any other; a bias is
    spread over the examples.
    """
    spread = [each for each in op.operands if each.op is None and math.prod(each.shape) > 1 and each.shape != op.shape]
    return bool(op.weights) and (bool(spread) or not op.operands)
