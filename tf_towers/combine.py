"""Combines the gradients of all towers into one per variable."""

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError

REDUCTIONS = ("mean", "sum")


def combine_gradients(tower_grads, reduce="mean"):
    """Combines the towers' gradients, paired by variable.

    Published versions pair by position after dropping missing gradients, and then merge gradients of different
    variables wherever two towers lack different ones. Pairing by variable cannot.

    Args:
      tower_grads: a list over the towers of lists of ``(gradient, variable)``; a gradient has its variable's shape, or
        is None where the tower's loss does not depend on the variable.
      reduce: "mean" divides by the number of towers, "sum" does not.

    Returns:
      A list of ``(gradient, variable)`` in the order of the first tower; variables without a gradient in every tower are
      left out.

    Raises:
      TowerError: `reduce` is neither; a variable has a gradient in some towers only, or is missing from some.

    Counterpart: torch_ddp.gradients
    """
    if reduce not in REDUCTIONS:
        raise TowerError(f"combine_gradients: expected reduce to be 'mean' or 'sum', got {reduce!r}.")
    if not tower_grads:
        raise TowerError("combine_gradients: expected at least one tower, got none.")
    by_name = [_by_name(tower, pairs) for tower, pairs in enumerate(tower_grads)]
    _require_same_variables(by_name)
    combined = []
    for name, (_, variable) in by_name[0].items():
        gradients = [pairs[name][0] for pairs in by_name]
        present = [tower for tower, gradient in enumerate(gradients) if gradient is not None]
        if present and len(present) < len(gradients):
            raise TowerError(
                f"combine_gradients: expected a gradient of {name!r} in every tower, got one in towers {present} "
                f"of {len(gradients)} only. Give every tower the same loss, or leave the variable out of all."
            )
        if present:
            combined.append((_reduce(gradients, reduce, name), variable))
    return combined


def _by_name(tower, pairs):
    named = {}
    for gradient, variable in pairs:
        name = variable.op.name
        if name in named:
            raise TowerError(f"combine_gradients: expected each variable once, got {name!r} twice in tower {tower}.")
        named[name] = (gradient, variable)
    return named


def _require_same_variables(by_name):
    first = set(by_name[0])
    for tower, pairs in enumerate(by_name):
        odd = sorted(first.symmetric_difference(pairs))
        if odd:
            raise TowerError(
                f"combine_gradients: expected the same variables in every tower, got {', '.join(odd)} "
                f"in only one of towers 0 and {tower}. Compute all gradients with the same variable list."
            )


def _reduce(gradients, reduce, name):
    with tf.name_scope("combine"):
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        stacked = tf.stack(dense, name=name.replace("/", "_"))
        return tf.reduce_mean(stacked, 0) if reduce == "mean" else tf.reduce_sum(stacked, 0)
