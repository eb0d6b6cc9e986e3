"""Reductions over a whole weight, as the norms of LAMB are: written without the weight's axes, so that all have one rule."""

from collections.abc import Iterable

from parity.port.tower.infer import inferred
from parity.port.tower.ops import CONST, Op, Tensor
from parity.port.tower.simplify import axes_of, neutral
from parity.port.training.values import rewritten

REDUCING_TO_ONE = ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any")
SHAPING = ("Squeeze", "Reshape", "ExpandDims")


def with_whole_reductions(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Returns expressions in which what is reduced over all axes is one number, and so is what is computed of such alone.

    Factors of 1 are left out: where LAMB does not adapt to a weight, its ratio is that.
    """
    return rewritten(rewritten(tensors, _of_known_shape), _whole)


def _of_known_shape(op: Op) -> Tensor | None:
    """An op of an update whose shape no trace keeps, by those of the leaves."""
    if not op.inputs:
        return None
    shape = inferred(op)
    known = Op(op.kind, op.name, op.inputs, op.attributes, [shape], op.dtypes, op.place) if shape is not None else op
    return neutral(known) or known.output()


def _whole(op: Op) -> Tensor | None:
    if op.kind in REDUCING_TO_ONE:
        taken, axes = op.inputs[0], axes_of(op)
        # tf.norm keeps the axes, takes the root and squeezes them.
        if taken.shape and axes is not None and len(axes) == len(taken.shape):
            return _number(op, {"keep_dims": False})
        return None
    if op.kind in SHAPING and op.inputs[0].shape == () and op.inputs[0].kind != CONST:
        return op.inputs[0]
    if op.inputs and op.output().shape and all(each.shape == () for each in op.inputs):
        return _number(op, op.attributes)
    return None


def _number(op: Op, attributes: dict[str, object]) -> Tensor:
    return Op(op.kind, op.name, op.inputs, attributes, [()], op.dtypes, op.place).output()


def without_axes(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Returns expressions that are the same for weights of any number of axes, to be compared and not to be written."""
    return rewritten(tensors, _axisless)


def _axisless(op: Op) -> Tensor | None:
    if op.kind in REDUCING_TO_ONE and op.output().shape == () and len(op.inputs) > 1:
        return Op(op.kind, op.name, op.inputs[:1], {}, [()], op.dtypes, op.place).output()
    return None
