"""Finds where two backward passes part whose forward passes are the same."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.metrics import norm
from parity.locate.downstream import readers, upstream
from parity.locate.layouts import align
from parity.locate.matching import Pass, Value, partners
from parity.trace import ForwardOp
from parity.trace.arrays import Array

# Of a gradient's norm: sums of another order, and what cancels in them. Gradients of right ports in float64 are 9e-15
# apart in three layers and 5.8e-12 in 40.
# As `CLOSE` of parity/diagnose/agreement.py, which stands on the same figures.
CLOSE_GRADIENT = 1e-9


class Parting(NamedTuple):
    """The last outputs whose gradient differs: those of all that is computed from them are the same.

    Fields:
      op: of the reference.
      port: of the candidate, with the same output.
      number: of `port`.
      readers: numbers of the candidate's ops that take its output.
      reference, candidate: the gradients in the reference's layout; None where no order of axes fits.
    """

    op: ForwardOp
    port: ForwardOp
    number: int
    readers: list[int]
    reference: Array | None
    candidate: Array | None


class Backwards(NamedTuple):
    """What the gradients of all outputs show.

    Fields:
      parting: where they part; None where none differs, or where they do so in no order that the forward pass explains.
      same: whether there are such gradients, and none of them differs.
    """

    parting: Parting | None
    same: bool


def part(outputs: tuple[Pass, Pass], gradients: tuple[Value, Value]) -> Backwards:
    """Returns where the gradients of a loss part, walking back from it.

    An output of the candidate is that of the reference where it holds the same numbers, in whatever order of axes; so has to
    be its gradient. Where several hold the same numbers, one of them has to have it: what only hands on what it takes may
    stand before or behind the place where ways join.

    Args:
      outputs: of the forward passes, reference and candidate.
      gradients: of the loss with respect to each output; None where it is not known.
    """
    # By op of the reference all ops of the candidate with the same output: of these alone gradients are comparable.
    found, shapes = partners(*outputs), [op.shape for op in outputs[0].ops]
    pairs = {number: others for number, others in found.items() if np.prod(shapes[number]) > 1}  # a loss's own is 1
    known = {  # what a side does not follow back says nothing
        number: (one, [(each, value) for each in others if (value := gradients[1](each)) is not None])
        for number, others in pairs.items()
        if (one := gradients[0](number)) is not None
    }
    agreeing = {
        number: {each for each, value in others if _same(one, value)} for number, (one, others) in known.items()
    }
    # One that agrees is enough: an equal output may be a copy, which gets a part of the gradient.
    right = {number for number, found in agreeing.items() if found}
    # The port's output that agrees with another of the reference's is that one, and not this one, which it may lack.
    other_ones = set().union(*agreeing.values())
    wrong = {
        number
        for number, (_, others) in known.items()
        if number not in right and any(each not in other_ones for each, _ in others)
    }
    last = _last(outputs[0].ops, wrong)
    # Where no gradient agrees the losses themselves differ, and no op is to blame.
    if last is None or not right:
        return Backwards(None, bool(right) and not wrong)  # where none is right, it is what is minimised that differs
    other = next(each for each, _ in known[last][1] if each not in other_ones)
    reference, candidate = gradients[0](last), gradients[1](other)
    pair = align(reference, candidate) if reference is not None and candidate is not None else None
    ops = outputs[1].ops
    own = pair.reference if pair else None, pair.candidate if pair else None
    return Backwards(Parting(outputs[0].ops[last], ops[other], other, readers(ops)[other], *own), False)


def _same(one: Array, other: Array) -> bool:
    if one.size != other.size:
        return False
    # Sorted, since layouts differ: no other order brings the two nearer to each other in norm.
    ordered = [np.sort(np.asarray(each, np.float64), axis=None) for each in (one, other)]
    return norm(ordered[0] - ordered[1]) <= CLOSE_GRADIENT * norm(ordered[0])


def _last(ops: Sequence[ForwardOp], wrong: set[int]) -> int | None:
    """The last op of which nothing that is computed from it is wrong."""
    # What lies before another wrong one may be wrong by that alone.
    before = upstream(ops, [each for number in wrong for each in ops[number].inputs])
    return max(wrong - before, default=None)
