"""Takes the towers' gradients to the one that is applied: clipped, over micro-batches, over towers, regularised."""

import collections

import tensorflow.compat.v1 as tf

from tf_towers.clip import clip_gradients
from tf_towers.combine import combine_gradients
from tf_towers.errors import TowerError
from tf_towers.regularize import decay_terms

Gradients = collections.namedtuple("Gradients", ["tower_clipped", "combined", "clipped"])
Gradients.__doc__ = """The gradients of a step, each a list of ``(gradient, variable)``.

Fields:
  tower_clipped: a list over the replicas of such lists; empty unless clipped there.
  combined: over all towers, before clipping.
  clipped: the combined ones clipped; empty unless clipped there.
"""


def make_gradients(rows, examples, plan):
    """Combines the gradients of all towers as the plan says.

    Args:
      rows: a list over the towers of lists over their micro-batches of `Tower`.
      examples: a list over the towers of how many examples they hold, or None where all hold as many.
      plan: a `Plan`.

    Returns:
      `Gradients`.

    Raises:
      TowerError: no tower has a gradient, or some lack one and the plan refuses that.

    Counterpart: torch_ddp.gradients
    """
    clips_towers = bool(plan.clip) and plan.clip["at"] == "tower"
    of_rows = [[_clipped(one.gradients, plan) if clips_towers else one.gradients for one in row] for row in rows]
    tower_clipped = [pairs for row in of_rows for pairs in row] if clips_towers else []
    if plan.reduce == "mean_of_losses":
        combined = _of_mean_loss([row[0] for row in rows])
    else:
        combined = _over_towers([_over_micro_batches(row, plan) for row in of_rows], examples, plan)
    if not combined:
        raise TowerError("build: expected gradients, got none in any tower. Let the loss depend on the variables.")
    if plan.regularization == "once":
        combined = _regularized(combined, rows[0][0], plan)
    clipped = _clipped(combined, plan) if plan.clip and not clips_towers else []
    return Gradients(tower_clipped, combined, clipped)


def _clipped(gradients, plan):
    clip = plan.clip
    return clip_gradients(gradients, clip["by"], clip["limit"], clip["sum_duplicates"]).gradients


def _over_micro_batches(row, plan):
    if len(row) == 1:
        return row[0]
    reduced = combine_gradients(row, plan.accumulate["reduce"], sparse=plan.sparse)
    combined = {variable.op.name: gradient for gradient, variable in reduced}
    return [(combined.get(variable.op.name), variable) for _, variable in row[0]]


def _over_towers(of_towers, examples, plan):
    if plan.reduce == "examples":
        return combine_gradients(of_towers, "mean", plan.missing, plan.sparse, examples or [1] * len(of_towers))
    return combine_gradients(of_towers, "mean" if plan.reduce == "mean" else "sum", plan.missing, plan.sparse)


def _of_mean_loss(towers):
    weights = [variable for _, variable in towers[0].gradients]
    mean = tf.add_n([tower.loss for tower in towers]) / len(towers)
    return [pair for pair in zip(tf.gradients(mean, weights), weights) if pair[0] is not None]


def _regularized(combined, first, plan):
    weights = [variable for _, variable in first.gradients]
    names = [variable.op.name for variable in weights]
    decay = decay_terms(plan.weight_decay, weights, names) if plan.weight_decay else []
    # What later towers put there are the same terms again.
    terms = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[: first.available - len(decay)] + decay
    extra = tf.gradients(terms, [variable for _, variable in combined]) if terms else [None] * len(combined)
    return [
        (gradient if more is None else tf.convert_to_tensor(gradient) + more, variable)
        for (gradient, variable), more in zip(combined, extra)
    ]
