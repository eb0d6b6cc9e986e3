"""Applies the combined gradients once everything that a step records has been computed."""

from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Sequence

import tensorflow.compat.v1 as tf

from tf_towers.graph.update.batch_norm_updates import choose_updates
from tf_towers.tf_types import Gradient, Operation, Optimizer, Pairs, Tensor, Variable

if TYPE_CHECKING:
    from tf_towers.graph.options import Plan
    from tf_towers.graph.tower import Tower


def tensors_of(gradients: Iterable[Gradient]) -> List[Tensor]:
    """Returns the tensors of a list of gradients, two for each `tf.IndexedSlices`; None is left out."""
    found = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            found += [gradient.values, gradient.indices]
        elif gradient is not None:
            found.append(gradient)
    return found


def all_finite(gradients: Pairs) -> Tensor:
    """Returns a bool scalar: whether every element of every gradient is finite.

    Args:
      gradients: list of ``(gradient, variable)``.
    """
    finite = [tf.reduce_all(tf.is_finite(tensor)) for tensor in _floats(gradients)]
    return tf.reduce_all(tf.stack(finite))


def gated_update(
    optimizer: Optimizer,
    gradients: Pairs,
    global_step: Variable,
    recorded: Sequence[Tensor],
    towers: "Sequence[Tower]",
    plan: "Plan",
    finite: Tensor = None,
    after: Sequence[Callable[[], Operation]] = (),
) -> Operation:
    """Builds the update: batch-norm updates and weights, after everything recorded, before what follows.

    With ref variables an update may overtake the gradients and losses fetched beside it, or those that other gradients
    still need (shown by test_an_ungated_update_races), so it waits for all of them.

    Args:
      optimizer: a `tf.train.Optimizer`.
      gradients: list of ``(gradient, variable)``.
      global_step: counts updates.
      recorded: tensors that a step fetches.
      towers: list of `Tower`.
      plan: a `Plan`.
      finite: None, or a bool scalar without which weights and step count stay as they are.
      after: functions that build ops which run once the update has.

    Returns:
      The op to run.
    """
    updates = choose_updates(plan.batch_norm_updates, _by_tower(towers))
    before = list(recorded) + (updates if plan.update_ops == "before" else [])
    if finite is not None:
        # Inside the condition they would be named after it.
        optimizer._create_slots([variable for _, variable in gradients])
    # One gate: an edge from everything recorded to every op of the update would be hundreds of thousands of edges.
    with tf.control_dependencies(before):
        gate = tf.no_op("recorded")
    with tf.control_dependencies([gate]):
        if finite is None:
            applied = optimizer.apply_gradients(gradients, global_step=global_step)
        else:
            applied = tf.cond(
                finite, lambda: _applied(optimizer, gradients, global_step), lambda: tf.no_op("skipped"), name="apply"
            )
    beside = updates if plan.update_ops == "grouped" else []
    for follow in after:
        # The averages come first in after; a loss scale always waits for the update.
        unordered = plan.ema and plan.ema["order"] == "unordered" and follow is after[0]
        with tf.control_dependencies(list(recorded) if unordered else [applied]):
            beside = beside + [follow()]
    return tf.group(applied, *beside)


def _applied(optimizer: Optimizer, gradients: Pairs, global_step: Variable) -> Operation:
    return tf.group(optimizer.apply_gradients(gradients, global_step=global_step))


def _by_tower(towers: "Sequence[Tower]") -> List[List[Operation]]:
    rows: Dict[str, List[Operation]] = {}
    for tower in towers:
        rows.setdefault(tower.name.split(".")[0], []).extend(tower.updates)
    # As numbers: tower 10 comes after tower 9.
    return [rows[name] for name in sorted(rows, key=int)]


def _floats(gradients: Pairs) -> List[Tensor]:
    return [tensor for tensor in tensors_of(gradient for gradient, _ in gradients) if tensor.dtype.is_floating]
