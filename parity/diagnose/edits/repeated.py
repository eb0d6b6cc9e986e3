"""Makes a change of an op again where its line runs once more behind it, as in the steps of a loop: the change's control.

In a loop that is written out a change of the first step alone may give numbers that the other side has: from a state of
zeros whatever is done to the state is nothing. Done in the next step too, a change that is the right one is met again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from parity.diagnose.edits.edit import Edit
from parity.diagnose.ops.forward_pass import RecomputedPass
from parity.locate.matching import Pass
from parity.trace import ForwardOp
from parity.trace.arrays import Array

Changes = Callable[[RecomputedPass, int], Iterable[Edit]]


class Again(NamedTuple):
    """What a pass gives where a change is made at its op, and again at the next op of that line.

    Fields:
      number: of that next op.
      outputs: by number of this op, and of those that come of it, what they give then.
    """

    number: int
    outputs: Mapping[int, Array]


def made_again(run: RecomputedPass, edit: Edit, changes: Changes, most: int) -> Again | None:
    """Returns what comes of a change that is made again where its line runs once more, None where it does not.

    None, too, where nobody can say: what lies between, or the change there, cannot be computed.

    Args:
      run: the pass.
      edit: the change.
      changes: yields the changes of an op of some pass that are of the same kind.
      most: how many ops are computed.
    """
    values, later = {edit.number: edit.value, **dict(edit.beside)}, None
    for number, value in run.after(dict(values), most):
        values[number] = value
        if _same_line(run.ops[number], run.ops[edit.number]):
            later = number
            break
    if later is None:
        return None
    changed = RecomputedPass(_with(run, values))
    for each in changes(changed, later):
        if (each.name, each.as_is, each.changed) == (edit.name, edit.as_is, edit.changed):
            both = {edit.number: edit.value, **dict(edit.beside), later: each.value, **dict(each.beside)}
            # Beside it the step goes on with what only the first change has moved: that shows nothing of the second.
            behind = _behind(run, later)
            outputs = {number: value for number, value in run.after(both, most) if number in behind}
            return Again(later, {later: each.value, **outputs})
    return None


def _behind(run: RecomputedPass, number: int) -> set[int]:
    found = {number}
    for each in range(number, len(run.ops)):
        found.update(run.readers[each] if each in found else ())
    return found


def _same_line(one: ForwardOp, other: ForwardOp) -> bool:
    """Whether two ops are one call of the source, in two steps of a loop."""
    return one.line is not None and (one.kind, one.line, one.shape) == (other.kind, other.line, other.shape)


def _with(run: RecomputedPass, values: Mapping[int, Array]) -> Pass:
    """The pass with other outputs, each taken by the ops behind it as they took the one that it stands for."""

    def value(number: int) -> Array | None:
        return values[number] if number in values else run.output(number)

    def operand(number: int, at: int) -> Array | None:
        taken = run.takes(number)
        if taken is None or taken[at].source not in values:
            return run.passed.operand(number, at)
        return run.as_taken(values[taken[at].source], taken[at])  # type: ignore[index]

    return run.passed._replace(value=value, operand=operand)
