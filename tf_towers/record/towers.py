"""Finds the towers behind an update: the calls for gradients that it goes back to."""

import collections
import re

import tensorflow.compat.v1 as tf

TowerFound = collections.namedtuple(
    "TowerFound", ["losses", "gradients", "without", "device", "scope", "made_by", "reduction"]
)
TowerFound.__doc__ = """One replica of the model, as found in the graph.

Fields:
  losses: list of the tensors that were differentiated, nearly always one.
  gradients: dict of variable name to tensor or `tf.IndexedSlices`.
  without: sorted names of the variables that have no gradient in this tower.
  device: that its loss was placed on, "" where none.
  scope: name scope of its loss.
  made_by: "compute_gradients" or "tf.gradients".
  reduction: "mean" or "sum" where the tower's loss is that of the elements of `losses`, which has no tensor; else "".
"""


def towers_of(apply, calls):
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
            pending += list(tensor.op.inputs)
    return _merged([calls[number] for number in sorted(used)])


TOWER_SCOPE = re.compile(r"^((?:.*/)?)(tower|clone|replica|gpu)_?(\d*)/", re.IGNORECASE)
GPU = re.compile(r"(?:^|/)(?:device:)?gpu:(\d+)", re.IGNORECASE)
READ_THROUGH = frozenset(["Identity", "ReadVariableOp", "Cast"])


def suggested_towers(ops):
    """Returns how many towers the devices and name scopes of a forward pass suggest, 1 where nothing does.

    Places that read the same weights suggest towers; a model that is spread over devices reads others on each.

    Args:
      ops: the ops that the losses need.
    """
    weights = collections.defaultdict(set)
    for op in ops:
        names = {re.sub(r"\d+", "#", name) for name in _weights_read(op)}
        for place in _places(op) if names else ():
            weights[place] |= names
    alike = collections.Counter((kind, frozenset(names)) for (kind, _), names in weights.items())
    return max([1] + list(alike.values()))


def _places(op):
    device, scope = GPU.search(op.device), TOWER_SCOPE.match(op.name)
    if device:
        yield "device", device.group(1)
    if scope:
        yield (scope.group(1), scope.group(2)), scope.group(3)


def _weights_read(op):
    if op.type in READ_THROUGH:
        return
    for tensor in op.inputs:
        inner = tensor.op
        while inner.type in READ_THROUGH and len(inner.inputs):
            inner = inner.inputs[0].op
        if inner.type in ("Variable", "VariableV2", "VarHandleOp"):
            yield inner.name


def values_of(gradient):
    """Returns the tensor of a gradient: itself, or the values of `tf.IndexedSlices`."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _merged(calls):
    by_loss = collections.OrderedDict()
    for call in calls:
        by_loss.setdefault(tuple(loss.name for loss in call.losses), []).append(call)
    return [_tower(group) for group in by_loss.values()]


def _tower(group):
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
