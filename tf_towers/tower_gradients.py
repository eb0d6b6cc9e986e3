"""Takes the gradients of towers: each loss by itself, or all of them where towers exchange tensors."""

import contextlib

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.over_towers import gradients_of_tower, upstream_of
from tf_towers.several import parts_of


class TowerGradients(object):
    """Takes the gradients of towers as a plan says.

    Args:
      plan: a `Plan`.
      towers: number of towers.
      loss_scale: None, or what losses are multiplied by and gradients divided by, a number or a float32 scalar.
      parts: dict of name to `Part`, of which the losses of their own count.
    """

    def __init__(self, plan, towers, loss_scale, parts):
        self._plan = plan
        self._towers = towers
        self._loss_scale = loss_scale
        self._parts = parts

    def of(self, models, scopes=None):
        """Returns the `Tower` of each model, with its gradients.

        Args:
          models: a list of `Model`: one that exchanged nothing, or all that exchanged with each other.
          scopes: a list over them of functions without arguments that make the context manager in which a tower is built;
            None where it is entered already.
        """
        names = models[0].names
        owners = parts_of(self._parts, names)
        losses = [_own_loss(self._parts.get(owners.get(name)), models[0].tower.outputs) for name in names]
        found = [{} for _ in models]
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

    def _scaled(self, loss):
        if self._plan.reduce == "prescaled":
            loss = loss / self._towers
        return loss if self._loss_scale is None else loss * tf.cast(self._loss_scale, loss.dtype)

    def _unscaled(self, gradients, loss):
        if self._loss_scale is None:
            return gradients
        scale = tf.cast(self._loss_scale, loss.dtype)
        return [_divided(gradient, scale) for gradient in gradients]


@contextlib.contextmanager
def _entered():
    yield


def _minimised(model, wanted):
    return model.tower.loss if wanted is None else model.tower.outputs[wanted]


def _own_loss(part, outputs):
    if part is None or part.loss is None:
        return None
    if part.loss not in outputs or outputs[part.loss].shape.ndims != 0:
        scalars = [name for name, tensor in outputs.items() if tensor.shape.ndims == 0]
        raise TowerError(
            f"optimizers: expected the loss {part.loss!r} among the tower's scalar outputs, "
            f"got {', '.join(scalars) or 'none'}. Return it: (loss, {{{part.loss!r}: tensor}})."
        )
    return part.loss


def _divided(gradient, scale):
    if gradient is None:
        return None
    scale = tf.cast(scale, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / scale, gradient.indices, gradient.dense_shape)
    return gradient / scale
