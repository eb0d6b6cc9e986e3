"""Builds one tower after the other: the model on a shard, its loss, its gradients."""

import collections
import inspect

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.feed import EXAMPLE_WEIGHTS
from tf_towers.mixed_dtypes import explain_mixed_dtypes, require_dtype
from tf_towers.place import place_variables
from tf_towers.regularize import decay_terms, regularization_terms
from tf_towers.several import parts_of
from tf_towers.shard import shard
from tf_towers.share import share
from tf_towers.wrong_use import explain_foreign_graph

Tower = collections.namedtuple(
    "Tower", ["inputs", "loss", "outputs", "gradients", "updates", "name", "terms", "available", "copies"]
)
Tower.__doc__ = """One replica of the model.

Fields:
  inputs: dict of input name to its shard, ``[batch / towers, ...]``.
  loss: scalar, with the regularisation terms that this tower adds.
  outputs: dict of name to whatever else the tower function returned.
  gradients: list of ``(gradient, variable)`` over the trainable variables, without loss scale.
  updates: the ops that this tower put into `UPDATE_OPS`, in order.
  name: "0", "1", ...; "0.1" is micro-batch 1 of tower 0.
  terms: the regularisation terms in `loss`.
  available: how many terms there were to choose from.
  copies: dict of variable name to this tower's own copy; empty unless variables are replicated.
"""


def build_replicas(tower, shards, devices, homes, plan, loss_scale=None, parts=None, call=None):
    """Builds every tower, and every micro-batch of it.

    Args:
      tower: function of the inputs by name that returns a scalar loss, or ``(loss, dict of name to tensor)``.
      shards: a list over the towers of dicts of input name to tensor.
      devices: the towers' devices.
      homes: a list over the towers of where their variables live.
      plan: a `Plan`.
      loss_scale: None, or what losses are multiplied by and gradients divided by, a number or a float32 scalar.
      parts: dict of name to `Part`, of which the losses of their own count.
      call: what `share` made of the tower; by default it is made here.

    Returns:
      A list over the towers of lists over their micro-batches of `Tower`.
    """
    _require_example_weights(tower, shards)
    steps = plan.accumulate["steps"] if plan.accumulate else 1
    call = call or share(tower, plan.share)
    made, built = _Made(plan, len(shards), loss_scale, parts or {}), []
    for index, inputs in enumerate(shards):
        micros = []
        for micro, pieces in enumerate(shard(inputs, steps, parts="micro-batches") if steps > 1 else [inputs]):
            earlier = _updates_before(plan.batch_norm_updates, built, micros, len(shards))
            name = f"tower_{index}" if steps == 1 else f"tower_{index}/micro_{micro}"
            with tf.device(place_variables(homes[index], devices[index])), tf.name_scope(name) as scope:
                with tf.control_dependencies(earlier):
                    micros.append(made.build(call, index, micro, pieces, scope))
        built.append(micros)
    return built


def _updates_before(policy, built, micros, towers):
    # Whoever waits for an update makes it run: no tower may wait for updates that the policy leaves out.
    index = len(built)
    if (policy == "first" and index > 0) or (policy == "last" and index < towers - 1):
        return []
    before = [one for row in built for one in row] if policy == "all_ordered" else []
    return [update for one in before + micros for update in one.updates]


class _Made(object):
    """Builds towers, and remembers what the first one made: the others must share it."""

    def __init__(self, plan, towers, loss_scale, parts):
        self._parts = parts
        self._plan = plan
        self._towers = towers
        self._loss_scale = loss_scale
        self._weights = None
        self._names = ()

    def build(self, call, index, micro, inputs, scope):
        first = not (index or micro)
        own = index and self._plan.variables == "replicated"
        known = tf.global_variables()
        updates = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        terms = len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) if own else 0
        inputs = {name: tf.identity(tensor, name) for name, tensor in inputs.items()}
        with tf.variable_scope(f"copy_{index}" if own else tf.get_variable_scope(), auxiliary_name_scope=False):
            loss, outputs = loss_and_outputs(call, micro if own else index + micro, inputs)
        fresh = [variable for variable in tf.global_variables() if not any(variable is other for other in known)]
        if first:
            self._weights = list(tf.trainable_variables())
            self._names = [weight.op.name for weight in self._weights]
            _require_weights(self._weights, inputs)
        elif fresh and not (own and not micro):
            raise TowerError(_made_new_ones(index, fresh))
        copies = _copies(index, known + fresh) if own else {}
        weights = [copies[name] for name in self._names] if own else self._weights
        added, factor, available = self._terms(index, scope, terms, weights)
        if added:
            loss = loss + factor * tf.add_n(added)
        gradients = self._of_parts(loss, outputs, weights)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)[updates:]
        pairs = list(zip(gradients, self._weights))
        name = f"{index}.{micro}" if self._plan.accumulate else str(index)
        return Tower(inputs, loss, outputs, pairs, updates, name, added, available, copies)

    def _terms(self, index, scope, known, weights):
        policy = self._plan.regularization
        decay = decay_terms(self._plan.weight_decay, weights, self._names) if self._plan.weight_decay else []
        available = len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) - known + len(decay)
        terms, factor = regularization_terms(policy, index, self._towers, scope, known)
        nowhere = {"none": True, "once": True, "first_tower": index > 0, "last_tower": index < self._towers - 1}
        return terms + ([] if nowhere.get(policy) else decay), factor, available

    def _of_parts(self, loss, outputs, weights):
        owners = parts_of(self._parts, self._names)
        losses = [_own_loss(self._parts.get(owners.get(name)), outputs) for name in self._names]
        found = {}
        for wanted in sorted(set(losses), key=losses.index):
            places = [place for place, name in enumerate(losses) if name == wanted]
            minimised = loss if wanted is None else outputs[wanted]
            found.update(zip(places, self._gradients(minimised, [weights[place] for place in places])))
        return [found[place] for place in range(len(weights))]

    def _gradients(self, loss, weights):
        if self._plan.reduce == "prescaled":
            loss = loss / self._towers
        if self._loss_scale is None:
            return tf.gradients(loss, weights)
        scale = tf.cast(self._loss_scale, loss.dtype)
        return [_divided(gradient, scale) for gradient in tf.gradients(loss * scale, weights)]


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


def loss_and_outputs(call, index, inputs):
    """Calls a model; returns its loss, a scalar of the inputs' dtype, and a dict of its other outputs.

    Args:
      call: function ``(index, inputs)``, see `share`.
      index: of the tower.
      inputs: dict of input name to tensor.

    Raises:
      TowerError: there is no such loss, or two dtypes meet, or two graphs.
    """
    with explain_mixed_dtypes(inputs), explain_foreign_graph():
        returned = call(index, inputs)
    loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
    if not isinstance(loss, tf.Tensor):
        raise TowerError(
            f"tower: expected a scalar loss, or (loss, dict of outputs), got {type(loss).__name__}. "
            "Return a tensor; add up a list of losses with tf.add_n."
        )
    if loss.shape.ndims != 0:
        raise TowerError(f"tower: expected a scalar loss, got shape {loss.shape}. Reduce it, e.g. with tf.reduce_mean.")
    require_dtype(loss, "the loss", inputs)
    return loss, dict(outputs)


def _require_weights(weights, inputs):
    if not weights:
        raise TowerError("tower: expected trainable variables, got none. Make them with tf.get_variable.")
    for weight in weights:
        require_dtype(weight, f"the variable {weight.op.name!r}", inputs)


def _require_example_weights(tower, shards):
    arguments = inspect.getfullargspec(tower)
    if EXAMPLE_WEIGHTS in shards[0] and not (EXAMPLE_WEIGHTS in arguments.args or arguments.varkw):
        raise TowerError(
            f"tower: expected an argument {EXAMPLE_WEIGHTS}, [shard], 0 where the batch was padded, got none. "
            "Take it, and weight the losses of the examples with it."
        )


def _made_new_ones(index, fresh):
    return (
        f"tower: expected tower {index} to share the variables of tower 0, got new ones: "
        f"{', '.join(variable.op.name for variable in fresh)}. "
        "Make variables with tf.get_variable, which obeys the shared scope."
    )


def _copies(index, variables):
    prefix = f"copy_{index}/"
    return {variable.op.name[len(prefix) :]: variable for variable in variables if variable.op.name.startswith(prefix)}


def _divided(gradient, scale):
    if gradient is None:
        return None
    scale = tf.cast(scale, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / scale, gradient.indices, gradient.dense_shape)
    return gradient / scale
