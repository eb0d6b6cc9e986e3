"""What a search for one change knows of a side, and what it has met there."""

from collections.abc import Mapping
from typing import NamedTuple

from parity.diagnose.edits.edit import Edit
from parity.diagnose.ops.table import plain
from parity.locate.matching import Pass

MOST_OPS_CHANGED = 12  # ops behind the parting that are changed


class Side(NamedTuple):
    """One side's pass.

    Fields:
      passed: as it was recorded.
      start: number of the op at which it parts from the other, None where it has none.
      wrong: numbers of its ops whose output the other side has not.
      reached: numbers of those that the other side has too.
      counted: numbers of those whose output tells.
    """

    passed: Pass
    start: int | None
    wrong: frozenset[int]
    reached: frozenset[int]
    counted: frozenset[int]


class Hit(NamedTuple):
    """An output of the other side that comes of a change.

    Fields:
      edit: the change.
      at: number of this side's op whose output it is with the change.
      number: of the other side's op whose output it is.
      of_loss: whether it is the loss.
      size: its elements.
      met: all that comes of the change: number of the other side's op to that of this side's.
    """

    edit: Edit
    at: int
    number: int
    of_loss: bool
    size: int
    met: Mapping[int, int] = {}


def kinds_of(side: Side) -> set[str]:
    """Returns the kinds of a side's ops where it parts."""
    start = beginning(side)
    return {plain(op.kind) for op in side.passed.ops[start : start + MOST_OPS_CHANGED]}


def beginning(side: Side) -> int:
    """Returns the number of the first op where a side parts: of what its start takes, or the start itself.

    A factor in a longer product is passed over when the start is told, for it may stand elsewhere on the other side.
    """
    if side.start is None:
        return 0
    ops = side.passed.ops
    in_front = [
        each for each in ops[side.start].inputs if each in side.wrong and side.reached.issuperset(ops[each].inputs)
    ]
    return min([side.start, *in_front])
