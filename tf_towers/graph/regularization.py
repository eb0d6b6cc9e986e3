"""Decides which towers add the regularisation terms to their loss, and how often they count in the end."""

import re
from typing import Any, List, Mapping, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.tf_types import Tensor, Variable


def regularization_terms(
    policy: str, index: int, towers: int, scope: str = "", known: int = 0
) -> Tuple[List[Tensor], float]:
    """Returns the terms of `REGULARIZATION_LOSSES` that one tower adds to its loss, and their factor.

    A regulariser that `tf.get_variable` was given puts its term into the collection once, when the variable is made,
    and outside of every tower's name scope: taking the collection by scope, as much code does, finds nothing there.
    Terms that the tower itself adds with `tf.add_to_collection` are there once for each tower.

    Args:
      policy: "none"; "every_tower": all that the collection holds by now; "scoped": those under `scope`; "divided": all,
        divided by the number of towers; "first_tower", "last_tower": all, in this tower only; "once": none here.
      index: of the tower.
      towers: number of towers.
      scope: name scope of the tower, e.g. "tower_0/".
      known: length of the collection from which on its entries belong to this tower: replicated variables bring terms of
        their own to every tower.

    Returns:
      A list of scalars, and the factor that their sum has in the tower's loss.
    """
    # tf.get_variable runs a regulariser where the variable is made, in tower 0: the collection is as long after tower
    # 1.
    terms = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[known:]
    if policy in ("none", "once"):
        return [], 1.0
    # Measured: the term of tf.get_variable is at w/Regularizer, so no tower finds it; slim and tf.layers put it below
    # tower 0.
    if policy == "scoped":
        return [term for term in terms if term.op.name.startswith(scope)], 1.0
    if policy in ("first_tower", "last_tower"):
        wanted = 0 if policy == "first_tower" else towers - 1
        return (terms if index == wanted else []), 1.0
    return terms, 1.0 / towers if policy == "divided" else 1.0


def decay_terms(weight_decay: Mapping[str, Any], weights: Sequence[Variable], names: Sequence[str]) -> List[Tensor]:
    """Returns ``coefficient * sum(w ** 2) / 2`` for every weight whose name is asked for.

    Args:
      weight_decay: dict with `coefficient` and `only`, a regular expression that is searched for in the names.
      weights: variables.
      names: their names.

    Raises:
      TowerError: no name fits.
    """
    chosen = [weight for weight, name in zip(weights, names) if re.search(weight_decay["only"], name)]
    if not chosen:
        raise TowerError(
            f"weight_decay: expected {weight_decay['only']!r} to be found in a variable's name, "
            f"got {', '.join(names)}. Write a regular expression that fits one of them."
        )
    # l2_loss has the half in it, so that the gradient is coefficient * w: torch's weight_decay, in the loss as well.
    return [weight_decay["coefficient"] * tf.nn.l2_loss(weight) for weight in chosen]


def effective_coefficient(
    counts: Sequence[int], factor: float, distinct: int, reduce: str, once: bool = False
) -> float:
    """Returns how often regularisation counts in the combined gradient, 1 being what one model alone does.

    Args:
      counts: number of terms in each tower's loss.
      factor: of these terms in the loss.
      distinct: number of terms of one model.
      reduce: of the towers' gradients.
      once: the terms are added after the towers are combined.
    """
    if not distinct:
        return 0.0
    if once:
        return 1.0
    # Sum over towers of (terms in the loss / terms of one model) * factor, over the towers where they are averaged.
    towers = 1.0 if reduce == "sum" else float(len(counts))
    return factor * sum(counts) / distinct / towers
