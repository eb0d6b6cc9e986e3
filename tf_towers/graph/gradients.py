"""Takes the gradients of towers, and makes of them what the optimizer applies."""

import contextlib
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
)

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.cross_tower.collectives import gradients_of_tower, upstream_of
from tf_towers.graph.options import Plan
from tf_towers.graph.regularization import decay_terms
from tf_towers.graph.update.clip import clip_gradients
from tf_towers.graph.update.combine import combine_gradients
from tf_towers.graph.update.optimizer import Part, parts_of
from tf_towers.tf_types import Gradient, Pairs, Tensor

if TYPE_CHECKING:
    from tf_towers.graph.tower import Model, Tower


class TowerGradients:
    """Takes the gradients of towers as a plan says.

    Args:
      plan: a `Plan`.
      towers: number of towers.
      loss_scale: None, or what losses are multiplied by and gradients divided by, a number or a float32 scalar.
      parts: dict of name to `Part`, of which the losses of their own count.
    """

    def __init__(self, plan: Plan, towers: int, loss_scale: Any, parts: Mapping[str, Part]) -> None:
        self._plan = plan
        self._towers = towers
        self._loss_scale = loss_scale
        self._parts = parts

    def of(
        self, models: "Sequence[Model]", scopes: Optional[Sequence[Callable[[], ContextManager[Any]]]] = None
    ) -> "List[Tower]":
        """Returns the `Tower` of each model, with its gradients.

        Args:
          models: a list of `Model`: one that exchanged nothing, or all that exchanged with each other.
          scopes: a list over them of functions without arguments that make the context manager in which a tower is built;
            None where it is entered already.
        """
        names = models[0].names
        owners = parts_of(self._parts, names)
        losses = [
            _own_loss(self._parts[owners[name]] if name in owners else None, models[0].tower.outputs) for name in names
        ]
        found: List[Dict[int, Gradient]] = [{} for _ in models]
        # One pass of gradients for each loss: towers that exchange have to differentiate the same loss at once.
        for wanted in sorted(set(losses), key=losses.index):
            places = [place for place, name in enumerate(losses) if name == wanted]
            minimised = [self._scaled(_minimised(model, wanted)) for model in models]
            upstream = upstream_of(minimised, [model.exchanged for model in models])
            for at, model in enumerate(models):
                with scopes[at]() if scopes else _entered():
                    weights = [model.weights[place] for place in places]
                    gradients = gradients_of_tower(minimised[at], weights, model.exchanged, upstream[at])
                    found[at].update(zip(places, self._unscaled(gradients, minimised[at])))
        return [
            model.tower._replace(gradients=[(own[place], shared) for place, shared in enumerate(model.shared)])
            for model, own in zip(models, found)
        ]

    def _scaled(self, loss: Tensor) -> Tensor:
        if self._plan.reduce == "prescaled":
            # This division stays in the recorded gradients, as in slim's; the loss scale is taken out of them again.
            loss = loss / self._towers
        return loss if self._loss_scale is None else loss * tf.cast(self._loss_scale, loss.dtype)

    def _unscaled(self, gradients: List[Gradient], loss: Tensor) -> List[Gradient]:
        if self._loss_scale is None:
            return gradients
        scale = tf.cast(self._loss_scale, loss.dtype)
        # In each tower, before clipping and before they are combined: a limit is meant for gradients without the scale.
        return [_divided(gradient, scale) for gradient in gradients]


@contextlib.contextmanager
def _entered() -> Iterator[None]:
    yield


def _minimised(model: "Model", wanted: Optional[str]) -> Tensor:
    return model.tower.loss if wanted is None else model.tower.outputs[wanted]


def _own_loss(part: Optional[Part], outputs: Mapping[str, Tensor]) -> Optional[str]:
    if part is None or part.loss is None:
        return None
    if part.loss not in outputs or outputs[part.loss].shape.ndims != 0:
        scalars = [name for name, tensor in outputs.items() if tensor.shape.ndims == 0]
        raise TowerError(
            f"optimizers: expected the loss {part.loss!r} among the tower's scalar outputs, "
            f"got {', '.join(scalars) or 'none'}. Return it: (loss, {{{part.loss!r}: tensor}})."
        )
    return part.loss


def _divided(gradient: Gradient, scale: Tensor) -> Gradient:
    if gradient is None:
        return None
    scale = tf.cast(scale, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / scale, gradient.indices, gradient.dense_shape)
    return gradient / scale


# Takes the towers' gradients to the one that is applied: clipped, over micro-batches, over towers, regularised.


class Gradients(NamedTuple):
    """The gradients of a step, each a list of ``(gradient, variable)``.

    Fields:
      tower_clipped: a list over the replicas of such lists; empty unless clipped there.
      combined: over all towers, before clipping.
      clipped: the combined ones clipped; empty unless clipped there.
    """

    tower_clipped: List[Pairs]
    combined: Pairs
    clipped: Pairs


def make_gradients(rows: "Sequence[Sequence[Tower]]", examples: Optional[Sequence[Tensor]], plan: Plan) -> Gradients:
    """Combines the gradients of all towers as the plan says.

    Args:
      rows: a list over the towers of lists over their micro-batches of `Tower`.
      examples: a list over the towers of how many examples they hold, or None where all hold as many.
      plan: a `Plan`.

    Returns:
      `Gradients`.

    Raises:
      TowerError: no tower has a gradient, or some lack one and the plan refuses that.

    Counterpart: torch_ddp.step.gradients
    """
    of_towers = plan.clip if plan.clip and plan.clip["at"] == "tower" else None
    of_rows = [[_clipped(one.gradients, of_towers) if of_towers else one.gradients for one in row] for row in rows]
    tower_clipped = [pairs for row in of_rows for pairs in row] if of_towers else []
    if plan.reduce == "mean_of_losses":
        combined = _of_mean_loss([row[0] for row in rows])
    else:
        combined = _over_towers([_over_micro_batches(row, plan) for row in of_rows], examples, plan)
    if not combined:
        raise TowerError("build: expected gradients, got none in any tower. Let the loss depend on the variables.")
    if plan.regularization == "once":
        combined = _regularized(combined, rows[0][0], plan)
    clipped = _clipped(combined, plan.clip) if plan.clip and not of_towers else []
    return Gradients(tower_clipped, combined, clipped)


def _clipped(gradients: Pairs, clip: Mapping[str, Any]) -> Pairs:
    return clip_gradients(gradients, clip["by"], clip["limit"], clip["sum_duplicates"]).gradients


def _over_micro_batches(row: Sequence[Pairs], plan: Plan) -> Pairs:
    if not plan.accumulate or len(row) == 1:
        return row[0]
    reduced = combine_gradients(row, plan.accumulate["reduce"], sparse=plan.sparse)
    combined = {variable.op.name: gradient for gradient, variable in reduced}
    # With None where no micro-batch has one, for towers are compared by what they lack.
    return [(combined.get(variable.op.name), variable) for _, variable in row[0]]


def _over_towers(of_towers: Sequence[Pairs], examples: Optional[Sequence[Tensor]], plan: Plan) -> Pairs:
    if plan.reduce == "examples":
        return combine_gradients(of_towers, "mean", plan.missing, plan.sparse, examples or [1] * len(of_towers))
    return combine_gradients(of_towers, "mean" if plan.reduce == "mean" else "sum", plan.missing, plan.sparse)


def _of_mean_loss(towers: "Sequence[Tower]") -> Pairs:
    weights = [variable for _, variable in towers[0].gradients]
    # Differentiated at once: tf.gradients itself adds the towers' gradients, and none of them is known.
    mean = tf.add_n([tower.loss for tower in towers]) / len(towers)
    return [pair for pair in zip(tf.gradients(mean, weights), weights) if pair[0] is not None]


def _regularized(combined: Pairs, first: "Tower", plan: Plan) -> Pairs:
    weights = [variable for _, variable in first.gradients]
    names = [variable.op.name for variable in weights]
    decay = decay_terms(plan.weight_decay, weights, names) if plan.weight_decay else []
    # What later towers put there are the same terms again.
    terms = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[: first.available - len(decay)] + decay
    # A weight without a term has None here, and keeps rows where its gradient is sparse.
    extra = tf.gradients(terms, [variable for _, variable in combined]) if terms else [None] * len(combined)
    return [
        (gradient if more is None else tf.convert_to_tensor(gradient) + more, variable)
        for (gradient, variable), more in zip(combined, extra)
    ]
