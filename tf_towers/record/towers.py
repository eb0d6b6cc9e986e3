"""Finds the towers behind an update: the calls for gradients that it goes back to."""

import collections

import tensorflow.compat.v1 as tf

TowerFound = collections.namedtuple("TowerFound", ["losses", "gradients", "without", "device", "scope", "made_by"])
TowerFound.__doc__ = """One replica of the model, as found in the graph.

Fields:
  losses: list of the tensors that were differentiated, nearly always one.
  gradients: dict of variable name to tensor or `tf.IndexedSlices`.
  without: sorted names of the variables that have no gradient in this tower.
  device: that its loss was placed on, "" where none.
  scope: name scope of its loss.
  made_by: "compute_gradients" or "tf.gradients".
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
    return TowerFound(first.losses, gradients, sorted(without - set(gradients)), device, scope, first.made_by)
