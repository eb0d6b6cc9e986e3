"""Finds the towers of scripts that add up the towers' losses and differentiate once."""

import re

from tensorflow.python.framework import tensor_util

from tf_towers.record.towers import TowerFound

ADDING = frozenset(["AddN", "Add", "AddV2"])
STACKING = frozenset(["Pack", "ConcatV2"])
MADE_BY = "one minimize over the towers' losses"


def split_by_loss(towers):
    """Splits the one tower that was found into those whose losses it adds up.

    Args:
      towers: list of `TowerFound`.

    Returns:
      ``(towers, factor)``: the towers, without gradients of their own, and what the sum of their losses is multiplied by; or
      the list as it was, and None.
    """
    if len(towers) != 1 or len(towers[0].losses) != 1:
        return towers, None
    parts, factor = _parts(towers[0].losses[0])
    if len(parts) < 2 or not _replicas(parts):
        return towers, None
    return [
        TowerFound([part], {}, [], part.device or "", part.op.name.rpartition("/")[0], MADE_BY) for part in parts
    ], factor


def _parts(loss):
    factor, tensor = 1.0, loss
    while True:
        op = tensor.op
        inputs = list(op.inputs)
        if op.type in ("Identity", "Reshape", "Squeeze"):
            tensor = inputs[0]
        elif op.type in ("Mul", "RealDiv", "Div") and _constants(inputs):
            place, value = _constants(inputs)
            if op.type != "Mul" and place == 0:
                return [], None
            factor *= value if op.type == "Mul" else 1.0 / value
            tensor = inputs[1 - place]
        elif op.type in ADDING:
            return _added(tensor), factor
        elif op.type in ("Mean", "Sum") and inputs[0].op.type in STACKING:
            stacked = [each for each in inputs[0].op.inputs if tensor_util.constant_value(each) is None]
            return [_bare(each) for each in stacked], factor / len(stacked) if op.type == "Mean" else factor
        else:
            return [], None


def _added(tensor):
    if tensor.op.type not in ADDING:
        return [tensor]
    return [part for each in tensor.op.inputs for part in _added(each)]


def _bare(tensor):
    while tensor.op.type in ("ExpandDims", "Reshape", "Identity"):
        tensor = tensor.op.inputs[0]
    return tensor


def _constants(inputs):
    for place, tensor in enumerate(inputs):
        value = tensor_util.constant_value(tensor)
        if value is not None and value.size == 1 and float(value.reshape(())):
            return place, float(value.reshape(()))
    return None


def _replicas(parts):
    """Replicas are scalars made by the same kind of op, under names that differ in their numbers only."""

    def kind(part):
        return part.op.type, re.sub(r"_?\d+", "", part.op.name)

    apart = {(part.device, part.op.name.rpartition("/")[0]) for part in parts}
    scalars = all(part.shape.ndims == 0 for part in parts)
    return scalars and len({kind(part) for part in parts}) == 1 and len(apart) == len(parts)
