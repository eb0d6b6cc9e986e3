"""Builds the graph of tower training: one model, a replica per device, one update."""

import collections

import tensorflow.compat.v1 as tf

from tf_towers.combine import combine_gradients
from tf_towers.errors import TowerError
from tf_towers.optimizer import slot_variables
from tf_towers.place import place_variables, tower_devices
from tf_towers.shard import shard

BATCH_NORM_UPDATES = ("first", "last", "all_ordered")

Tower = collections.namedtuple("Tower", ["inputs", "loss", "outputs", "gradients", "updates"])
Tower.__doc__ = """One replica of the model.

Fields:
  inputs: dict of input name to its shard, ``[batch / towers, ...]``.
  loss: scalar.
  outputs: dict of name to whatever else the tower function returned.
  gradients: list of ``(gradient, variable)`` over the trainable variables.
  updates: the ops that this tower put into `UPDATE_OPS`, in order.
"""

Training = collections.namedtuple(
    "Training",
    ["graph", "inputs", "towers", "combined", "optimizer", "global_step", "train_op", "weights", "statistics", "slots"]
    + ["counters", "saved"],
)
Training.__doc__ = """A graph ready to train.

Fields:
  graph: the `tf.Graph`.
  inputs: dict of input name to the placeholder of the whole batch.
  towers: list of `Tower`.
  combined: list of ``(gradient, variable)``.
  optimizer: the `tf.train.Optimizer`.
  global_step: int64 variable, counts updates.
  train_op: runs one update after everything that a step records has been computed.
  weights, statistics: dicts of variable name to variable: trainable, and not.
  slots: dict of ``(slot, variable name)`` to variable.
  counters: dict of name to variable: global step and the optimizer's own scalars, e.g. "beta1_power".
  saved: every variable above, once.
"""


def build(
    tower, inputs, towers, optimizer, reduce="mean", variables="cpu", batch_norm_updates="first", gpus=(), seed=0
):
    """Builds towers under shared variables, combines their gradients, applies one update.

    Args:
      tower: function of the inputs by name that returns a scalar loss, or ``(loss, dict of name to tensor)``; it makes
        its variables with `tf.get_variable` (or layers that do), and follows the dtype of its inputs.
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers; divides the batch size.
      optimizer: function without arguments that makes the `tf.train.Optimizer`, called inside the graph.
      reduce: "mean" or "sum" over the towers' gradients.
      variables: "cpu" keeps them on the host, "first_gpu" on the first tower's device.
      batch_norm_updates: whose `UPDATE_OPS` run: the "first" tower's, the "last" one's, or all in the order of the towers.
      gpus: devices to use; virtual CPUs where they do not suffice.
      seed: of the graph.

    Returns:
      A `Training`.

    Raises:
      TowerError: the batch does not divide, a tower's loss is no scalar, a tower makes new variables, a gradient is
        missing in some towers, or an argument is not one of its choices.
    """
    if batch_norm_updates not in BATCH_NORM_UPDATES:
        raise TowerError(
            f"build: expected batch_norm_updates to be one of {', '.join(BATCH_NORM_UPDATES)}, "
            f"got {batch_norm_updates!r}."
        )
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(seed)
        placeholders = {name: tf.placeholder(dtype, shape, name) for name, (dtype, shape) in inputs.items()}
        devices = tower_devices(towers, gpus)
        home = {"cpu": "/cpu:0", "first_gpu": devices[0]}[variables]
        with tf.device("/cpu:0"):
            shards = shard(placeholders, towers)
        built = _build_towers(tower, shards, devices, home, ordered=batch_norm_updates == "all_ordered")
        with tf.device(place_variables(home, home)):
            combined = combine_gradients([replica.gradients for replica in built], reduce)
            made = optimizer()
            global_step = tf.train.get_or_create_global_step()
            updates = {"first": built[0].updates, "last": built[-1].updates}.get(
                batch_norm_updates, [update for replica in built for update in replica.updates]
            )
            train_op = _gated_update(made, built, combined, global_step, updates)
        return _training(graph, placeholders, built, combined, made, global_step, train_op)


def _build_towers(tower, shards, devices, home, ordered):
    built = []
    for index, (inputs, device) in enumerate(zip(shards, devices)):
        earlier = [update for replica in built for update in replica.updates] if ordered else []
        with tf.device(place_variables(home, device)), tf.name_scope(f"tower_{index}"):
            with tf.control_dependencies(earlier), tf.variable_scope(tf.get_variable_scope(), reuse=index > 0):
                built.append(_build_tower(tower, index, inputs))
    return built


def _build_tower(tower, index, inputs):
    known = tf.global_variables()
    updates_before = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    inputs = {name: tf.identity(tensor, name) for name, tensor in inputs.items()}
    returned = tower(**inputs)
    loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
    if loss.shape.ndims != 0:
        raise TowerError(f"tower: expected a scalar loss, got shape {loss.shape}. Reduce it, e.g. with tf.reduce_mean.")
    made = [variable.op.name for variable in tf.global_variables() if variable not in known]
    if index and made:
        raise TowerError(
            f"tower: expected tower {index} to share the variables of tower 0, got new ones: {', '.join(made)}. "
            "Make variables with tf.get_variable, which obeys the shared scope."
        )
    weights = tf.trainable_variables()
    if not weights:
        raise TowerError("tower: expected trainable variables, got none. Make them with tf.get_variable.")
    gradients = list(zip(tf.gradients(loss, weights), weights))
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)[updates_before:]
    return Tower(inputs, loss, dict(outputs), gradients, updates)


def _gated_update(optimizer, towers, combined, global_step, updates):
    # With ref variables an update may overtake the gradients and losses fetched beside it, or those that other
    # gradients still need (shown by test_an_ungated_update_races), so it waits for all of them.
    recorded = [gradient for gradient, _ in combined]
    for tower in towers:
        recorded += [tower.loss] + list(tower.outputs.values())
        recorded += [gradient for gradient, _ in tower.gradients if gradient is not None]
    with tf.control_dependencies(recorded + list(updates)):
        return optimizer.apply_gradients(combined, global_step=global_step)


def _training(graph, placeholders, towers, combined, optimizer, global_step, train_op):
    trainable = tf.trainable_variables()
    slots = slot_variables(optimizer, trainable)
    counted = {variable.op.name: variable for variable in optimizer.variables() if variable not in slots.values()}
    counted["global_step"] = global_step
    others = list(slots.values()) + list(counted.values()) + trainable
    statistics = [variable for variable in tf.global_variables() if not any(variable is other for other in others)]
    return Training(
        graph=graph,
        inputs=placeholders,
        towers=towers,
        combined=combined,
        optimizer=optimizer,
        global_step=global_step,
        train_op=train_op,
        weights={variable.op.name: variable for variable in trainable},
        statistics={variable.op.name: variable for variable in statistics},
        slots=slots,
        counters=counted,
        saved=others + statistics,
    )
