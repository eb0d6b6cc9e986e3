"""Finds which gradient calls, or which terms of one loss, are the towers of a script."""

import collections
import re
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from tf_towers.graph.op_types import (
    PASSING_WITH_GRADIENT,
    READING_OR_CASTING,
    SCALING,
    STACKING_TENSORS,
    SUMMING,
    VARIABLES,
)
from tf_towers.graph.traversal import ancestors
from tf_towers.record.inputs import inputs_of
from tf_towers.tf_types import Gradient, Operation, Tensor

if TYPE_CHECKING:
    from tf_towers.record.hooks import ApplyCall, GradientCall


# Finds the towers of scripts that join the towers' losses and differentiate once.

REDUCTION_OF_OP = {"Mean": "mean", "Sum": "sum"}
MADE_BY = "one minimize over the towers' losses"


def split_by_loss(towers: "List[TowerFound]") -> "Tuple[List[TowerFound], Optional[float]]":
    """Splits the one tower that was found into those whose losses it joins.

    A loss is followed back through factors and one mean or sum over everything, to where the towers' parts are added,
    stacked or put one after the other. With equal parts of ``m`` examples in ``n`` towers, the mean over all of them is
    ``1 / n`` times the sum of the towers' means.

    Args:
      towers: list of `TowerFound`.

    Returns:
      ``(towers, factor)``: the towers, without gradients of their own, and what the sum of their losses is multiplied by; or
      the list as it was, and None.
    """
    # Seven of 58 codebases minimise the mean of their towers' losses at once, three more a ratio of sums.
    if len(towers) != 1 or len(towers[0].losses) != 1:
        return towers, None
    parts, factor, reduction = _parts(towers[0].losses[0])
    if len(parts) < 2 or not _replicas(parts, reduction):
        return towers, None
    scalars = all(part.shape.ndims == 0 for part in parts)
    reduction = "" if scalars else reduction
    return [
        TowerFound([part], {}, [], part.device or "", part.op.name.rpartition("/")[0], MADE_BY, reduction)
        for part in parts
    ], factor


def _parts(loss: Tensor) -> Tuple[List[Tensor], Optional[float], str]:
    """Returns ``(parts, factor, reduction)``: the loss is `factor` times the sum over the parts of their reductions."""
    factor, reduction, tensor = 1.0, "", loss
    while True:
        op = tensor.op
        inputs = list(op.inputs)
        constant = _constants(inputs) if op.type in SCALING else None
        if op.type in PASSING_WITH_GRADIENT:
            tensor = inputs[0]
        elif constant is not None:
            place, value = constant
            # A constant divided by the loss is no multiple of it.
            if op.type != "Mul" and place == 0:
                return [], None, ""
            # Loss = factor * (tensor that is still to be followed), at every turn of the loop.
            factor *= value if op.type == "Mul" else 1.0 / value
            tensor = inputs[1 - place]
        elif op.type in SUMMING:
            return _added(tensor), factor, reduction
        elif op.type in REDUCTION_OF_OP and not reduction and tensor.shape.ndims == 0:
            reduction, tensor = REDUCTION_OF_OP[op.type], inputs[0]
        elif op.type in STACKING_TENSORS and reduction:
            parts = [_bare(each) for each in inputs if tensor_util.constant_value(each) is None]
            # The mean over a stack of n is 1 / n of the sum; that of parts of one size likewise.
            return parts, factor / len(parts) if reduction == "mean" else factor, reduction
        else:
            return [], None, ""


def _added(tensor: Tensor) -> List[Tensor]:
    if tensor.op.type not in SUMMING:
        return [tensor]
    return [part for each in tensor.op.inputs for part in _added(each)]


def _bare(tensor: Tensor) -> Tensor:
    while tensor.op.type in PASSING_WITH_GRADIENT:
        tensor = tensor.op.inputs[0]
    return tensor


def _constants(inputs: Sequence[Tensor]) -> Optional[Tuple[int, float]]:
    for place, tensor in enumerate(inputs):
        value = tensor_util.constant_value(tensor)
        if value is not None and np.size(value) == 1 and float(np.reshape(value, ())):
            return place, float(np.reshape(value, ()))
    return None


def _replicas(parts: Sequence[Tensor], reduction: str) -> bool:
    """Replicas are made by the same kind of op, under names that differ in their numbers only, from other data."""

    def kind(part: Tensor) -> Tuple[str, str]:
        # tower_0/Mean and tower_1/Mean_1 are alike: TensorFlow numbers what repeats.
        return part.op.type, re.sub(r"_?\d+", "", part.op.name)

    whole = all(part.shape.ndims == 0 for part in parts)
    if not (whole or (reduction and _equal_in_size(parts))) or len({kind(part) for part in parts}) > 1:
        return False
    places = {(part.device, part.op.name.rpartition("/")[0]) for part in parts}
    return len(places) == len(parts) or _same_weights_other_data(parts)


def _equal_in_size(parts: Sequence[Tensor]) -> bool:
    """Sizes that the graph does not know count as equal: whether they are is seen in what the towers are fed."""
    shapes = [part.shape.as_list() if part.shape.ndims is not None else None for part in parts]
    return all(shape is not None and len(shape) == len(shapes[0] or []) for shape in shapes) and all(
        len({size for size in sizes if size is not None}) < 2 for sizes in zip(*shapes)
    )


def _same_weights_other_data(parts: Sequence[Tensor]) -> bool:
    """Tells towers, of one model on pieces of one batch, from the terms of one model's loss."""
    behind = [ancestors([part.op]) for part in parts]
    weights = [{op for op in ops if op.type in VARIABLES} for ops in behind]
    inputs, _ = inputs_of(behind)
    sources = [{each.source.name for each in own} for own in inputs]
    pieces = [{each.tensor.name for each in own} for own in inputs]
    alike = all(each == weights[0] for each in weights) and all(each == sources[0] for each in sources)
    return bool(weights[0]) and alike and len({frozenset(each) for each in pieces}) == len(parts)


# Finds the towers behind an update: the calls for gradients that it goes back to.


class TowerFound(NamedTuple):
    """One replica of the model, as found in the graph.

    Fields:
      losses: list of the tensors that were differentiated, nearly always one.
      gradients: dict of variable name to tensor or `tf.IndexedSlices`.
      without: sorted names of the variables that have no gradient in this tower.
      device: that its loss was placed on, "" where none.
      scope: name scope of its loss.
      made_by: "compute_gradients" or "tf.gradients".
      reduction: "mean" or "sum" where the tower's loss is that of the elements of `losses`, which has no tensor; else "".
    """

    losses: List[Tensor]
    gradients: Dict[str, Gradient]
    without: List[str]
    device: str
    scope: str
    made_by: str
    reduction: str


def towers_of(apply: "ApplyCall", calls: "Sequence[GradientCall]") -> List[TowerFound]:
    """Returns the towers whose gradients an update uses, in the order in which the script made them.

    Args:
      apply: an `ApplyCall`.
      calls: list of `GradientCall`.

    Returns:
      A list of `TowerFound`; calls for the same loss are one tower.
    """
    marks = {}
    for number, call in enumerate(calls):
        for gradient, _ in call.pairs:
            if gradient is not None:
                marks[values_of(gradient).name] = number
    used = set()
    pending, seen = [values_of(gradient) for gradient, _ in apply.pairs], set()
    while pending:
        tensor = pending.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        if tensor.name in marks:
            used.add(marks[tensor.name])
        else:
            # Data inputs only: what an update waits for is no part of its gradient.
            pending += list(tensor.op.inputs)
    return _merged([calls[number] for number in sorted(used)])


# Name scopes of towers in 58 codebases: tower_ in 16, gpu_ in 6, clone_ in 3, replica_ in 1.
TOWER_SCOPE = re.compile(r"^((?:.*/)?)(tower|clone|replica|gpu)_?(\d*)/", re.IGNORECASE)
GPU = re.compile(r"(?:^|/)(?:device:)?gpu:(\d+)", re.IGNORECASE)


def suggested_towers(ops: Iterable[Operation]) -> int:
    """Returns how many towers the devices and name scopes of a forward pass suggest, 1 where nothing does.

    Places that read the same weights suggest towers; a model that is spread over devices reads others on each.

    Args:
      ops: the ops that the losses need.
    """
    # Numbers in names are left out: copies of replicated variables are called alike but for them.
    weights: Dict[Any, Set[str]] = collections.defaultdict(set)
    for op in ops:
        names = {re.sub(r"\d+", "#", name) for name in _weights_read(op)}
        for place in _places(op) if names else ():
            weights[place] |= names
    alike = collections.Counter((kind, frozenset(names)) for (kind, _), names in weights.items())
    return max([1] + list(alike.values()))


def _places(op: Operation) -> Iterator[Tuple[Any, str]]:
    device, scope = GPU.search(op.device), TOWER_SCOPE.match(op.name)
    # A device and a scope are two opinions on one op: each kind is counted by itself, and the larger one suggested.
    if device:
        yield "device", device.group(1)
    if scope:
        yield (scope.group(1), scope.group(2)), scope.group(3)


def _weights_read(op: Operation) -> Iterator[str]:
    if op.type in READING_OR_CASTING:
        return
    for tensor in op.inputs:
        inner = tensor.op
        while inner.type in READING_OR_CASTING and len(inner.inputs):
            inner = inner.inputs[0].op
        if inner.type in VARIABLES:
            yield inner.name


def values_of(gradient: Gradient) -> Tensor:
    """Returns the tensor of a gradient: itself, or the values of `tf.IndexedSlices`."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _merged(calls: "Sequence[GradientCall]") -> List[TowerFound]:
    by_loss: "Dict[Tuple[str, ...], List[GradientCall]]" = collections.OrderedDict()
    for call in calls:
        # One loss may be differentiated several times, for groups of variables with learning rates of their own.
        by_loss.setdefault(tuple(loss.name for loss in call.losses), []).append(call)
    return [_tower(group) for group in by_loss.values()]


def _tower(group: "Sequence[GradientCall]") -> TowerFound:
    gradients, without = collections.OrderedDict(), set()
    for call in group:
        for gradient, variable in call.pairs:
            if gradient is None:
                without.add(variable.op.name)
            else:
                gradients[variable.op.name] = gradient
    first = group[0]
    device = next((loss.device for loss in first.losses if loss.device), first.device)
    scope = first.scope or first.losses[0].op.name.rpartition("/")[0]
    return TowerFound(first.losses, gradients, sorted(without - set(gradients)), device, scope, first.made_by, "")
