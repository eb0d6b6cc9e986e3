"""Changes of a mixture of two: what a gate weighs, or a mask chooses, as ``x p + y (1 - p)`` or in one op."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.edits.edit import At, Edit
from parity.diagnose.ops.table import plain
from parity.locate.downstream import upstream
from parity.trace import ForwardOp
from parity.trace.arrays import Array

OFF_ONE = 1e-12  # of 1, which two shares add up to: computed, 1 - p rounds once


class Mixture(NamedTuple):
    """``x p + y (1 - p)``.

    Fields:
      opened: x, which counts where a gate is open.
      closed: y, which counts where it is closed.
      share: p, of the shape of the sum or broadcast to it; 0 to 1.
    """

    opened: Array
    closed: Array
    share: Array


def mixture_edits(at: At) -> Iterator[Edit]:
    """Yields the changes that take one of two things throughout, or weigh them the other way round.

    Args:
      at: the op that gives the mixture.
    """
    found = mixture_of(at)
    if found is None:
        return
    chosen = bool(np.isin(found.share, (0.0, 1.0)).all())
    as_is = "chooses between two by a mask" if chosen else "weighs two by a gate and by 1 less it"
    name, dropped = ("mask", "mask") if chosen else ("op_left_out", "mul")
    for value in (found.opened, found.closed):
        yield from at.edit(_spread(value, at), name, as_is, "takes the same one throughout", dropped)
    turned = found.opened * (1.0 - found.share) + found.closed * found.share
    # Of a gate in a step that is made again and again it is how a cell keeps its state.
    name = "mask" if chosen else "recurrent_rule" if _is_of_a_step(at) else at.by("loss_function", "gate_halves")
    yield from at.edit(_spread(turned, at), name, as_is, "does so the other way round")


def mixture_of(at: At) -> Mixture | None:
    """Returns the mixture that an op gives, None where it gives none."""
    if at.kind == "lerp" and len(at.taken) == 3:
        start, end, share = (np.asarray(each.value, np.float64) for each in at.taken)
        return Mixture(end, start, share) if _is_share(share) else None
    if at.kind != "add" or len(at.taken) != 2 or at.output.dtype.kind != "f":
        return None
    for opened, share in _factors(at, at.taken[0].source):
        for closed, rest in _factors(at, at.taken[1].source):
            if _is_share(share) and share.shape == rest.shape and np.abs(share + rest - 1.0).max() <= OFF_ONE:
                return Mixture(opened, closed, share)
    return None


def _factors(at: At, number: int | None) -> list[tuple[Array, Array]]:
    """Both ways to read a product: what is weighed, and the share that it is weighed by."""
    taken = at.run.takes(number) if number is not None and plain(at.run.ops[number].kind) == "mul" else None
    if taken is None or len(taken) != 2:
        return []
    left, right = (np.asarray(each.value, np.float64) for each in taken)
    return [(left, right), (right, left)]


def _is_share(value: Array) -> bool:
    return value.size > 1 and bool(value.min() >= 0.0 and value.max() <= 1.0 and np.ptp(value) > 0.0)


def _spread(value: Array, at: At) -> Array | None:
    try:
        return np.broadcast_to(value, at.output.shape)
    except ValueError:
        return None


def _is_of_a_step(at: At) -> bool:
    """Whether a line makes the like again of what it has made, by the same weights: a step of a loop, or of a cell in one.

    Layers that are built in a loop do so too, each by weights of its own.
    """
    ops, own = at.run.ops, at.run.ops[at.number]
    if own.line is None:
        return False
    like = [n for n, op in enumerate(ops) if op.line is not None and (op.kind, op.line[:2]) == (own.kind, own.line[:2])]
    return any(_is_made_again(ops, *sorted((at.number, each))) for each in like if each != at.number)


def _is_made_again(ops: Sequence[ForwardOp], earlier: int, later: int) -> bool:
    """Whether an op comes of an earlier one, and all weights that it comes of besides are those of the earlier one."""
    before, after = upstream(ops, [earlier]), upstream(ops, [later])
    known, further = ({name for each in among for name in ops[each].weights} for among in (before, after - before))
    return earlier in after and further <= known
