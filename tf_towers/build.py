"""Builds the graph of tower training: one model, a replica per device, one update."""

import tensorflow.compat.v1 as tf

from tf_towers.averages import Averages
from tf_towers.batch_norm_updates import choose_updates, racing_updates
from tf_towers.clip import clip_gradients
from tf_towers.combine import combine_gradients
from tf_towers.errors import TowerError
from tf_towers.feed import make_feeding
from tf_towers.loss_scale import LossScale
from tf_towers.mixed_dtypes import float32_places
from tf_towers.optimizer import learning_rate
from tf_towers.place import homes, place_variables, tower_devices
from tf_towers.plan import make_plan
from tf_towers.regularize import decay_terms, effective_coefficient
from tf_towers.replica import build_replicas
from tf_towers.training import Training, broadcast, collect, copies_of
from tf_towers.update import all_finite, gated_update, tensors_of
from tf_towers.wrong_use import require_graph_mode


def build(
    tower,
    inputs,
    towers,
    optimizer,
    reduce="mean",
    variables="cpu",
    batch_norm_updates="first",
    gpus=(),
    seed=0,
    **options,
):
    """Builds towers under shared variables, combines their gradients, applies one update.

    Args:
      tower: function of the inputs by name that returns a scalar loss, or ``(loss, dict of name to tensor)``; it makes
        its variables with `tf.get_variable` (or layers that do), and follows the dtype of its inputs.
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers; divides the batch size unless `uneven` says what else.
      optimizer: function without arguments that makes the `tf.train.Optimizer`, called inside the graph.
      reduce: how the towers' gradients become one, "mean", "sum" or another choice of `Plan`.
      variables: "cpu" keeps them on the host, "first_gpu" on the first tower's device; "balanced" and "replicated" are
        explained at `homes`.
      batch_norm_updates: whose `UPDATE_OPS` run: the "first" tower's, the "last" one's, or all in the order of the towers.
      gpus: devices to use; virtual CPUs where they do not suffice.
      seed: of the graph.
      **options: the other choices of `Plan`, e.g. ``clip={"by": "global_norm", "limit": 1.0}``.

    Returns:
      A `Training`.

    Raises:
      TowerError: the batch does not divide, a tower's loss is no scalar, a tower makes new variables, a gradient is
        missing in some towers, or an argument is not one of its choices.
    """
    require_graph_mode("build")
    plan = make_plan(reduce=reduce, variables=variables, batch_norm_updates=batch_norm_updates, **options)
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(seed)
        feeding = make_feeding(inputs, towers, plan.cut, plan.uneven)
        devices = tower_devices(towers, gpus)
        where, center = homes(variables, devices)
        with tf.device(place_variables(center, center)):
            scale = LossScale(plan.loss_scale) if plan.loss_scale is not None else None
        rows = build_replicas(tower, feeding.shards, devices, where, plan, scale and scale.value)
        with tf.device(place_variables(center, center)):
            return _train(graph, feeding, rows, optimizer, plan, scale)


def _train(graph, feeding, rows, optimizer, plan, scale):
    replicas = [replica for row in rows for replica in row]
    weights = [variable for _, variable in replicas[0].gradients]
    of_towers, tower_clipped = _gradients_of_towers(rows, plan)
    combined = _combined(of_towers, replicas, weights, feeding.examples, plan)
    clipped = _clipped(combined, plan) if plan.clip and plan.clip["at"] == "combined" else []
    finite = all_finite(combined) if scale and scale.dynamic else None
    of_towers_only = tf.global_variables()
    made = _checked(optimizer())
    global_step = tf.train.get_or_create_global_step()
    made._prepare()
    rate = learning_rate(made)
    recorded = _recorded(replicas, combined, clipped, tower_clipped) + tensors_of([rate, finite])
    averages = Averages(plan.ema, global_step, weights) if plan.ema else None
    after = ([averages.move] if averages else []) + ([lambda: scale.move(finite)] if finite is not None else [])
    gradients = _to_every_copy(clipped or combined, replicas)
    train_op = gated_update(made, gradients, global_step, recorded, replicas, plan, finite, after)
    sorted_out = collect(
        made,
        weights,
        of_towers_only,
        copies_of(replicas),
        dict(scale.variables if scale else {}, global_step=global_step),
        averages.variables() if averages else {},
    )
    return Training(
        graph=graph,
        inputs=feeding.inputs,
        towers=replicas,
        combined=combined,
        optimizer=made,
        global_step=global_step,
        train_op=train_op,
        plan=plan,
        feeds=feeding.feeds,
        rate=rate,
        tower_clipped=tower_clipped,
        clipped=clipped,
        broadcast=broadcast(sorted_out["saved"], sorted_out["copies"]),
        finite=finite,
        known=_known(rows, plan),
        **sorted_out,
    )


def _gradients_of_towers(rows, plan):
    """Returns what is combined, a list over the towers, and the clipped gradients of every replica."""
    clips = plan.clip and plan.clip["at"] == "tower"
    of_rows = [[_clipped(replica.gradients, plan) if clips else replica.gradients for replica in row] for row in rows]
    tower_clipped = [pairs for row in of_rows for pairs in row] if clips else []
    if plan.accumulate:
        reduce = plan.accumulate["reduce"]
        return [_over_micro_batches(row, reduce, plan) for row in of_rows], tower_clipped
    return [row[0] for row in of_rows], tower_clipped


def _over_micro_batches(row, reduce, plan):
    combined = {variable.op.name: gradient for gradient, variable in combine_gradients(row, reduce, sparse=plan.sparse)}
    return [(combined.get(variable.op.name), variable) for _, variable in row[0]]


def _combined(of_towers, replicas, weights, examples, plan):
    if plan.reduce == "mean_of_losses":
        mean = tf.add_n([replica.loss for replica in replicas]) / len(replicas)
        pairs = zip(tf.gradients(mean, weights), weights)
        combined = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    elif plan.reduce == "examples":
        counts = examples or [1] * len(of_towers)
        combined = combine_gradients(of_towers, "mean", plan.missing, plan.sparse, counts)
    else:
        reduce = {"prescaled": "sum"}.get(plan.reduce, plan.reduce)
        combined = combine_gradients(of_towers, reduce, plan.missing, plan.sparse)
    if not combined:
        raise TowerError("build: expected gradients, got none in any tower. Let the loss depend on the variables.")
    return _with_regularization(combined, weights, plan) if plan.regularization == "once" else combined


def _with_regularization(combined, weights, plan):
    terms = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if plan.weight_decay:
        terms = terms + decay_terms(plan.weight_decay, weights, [weight.op.name for weight in weights])
    found = zip(tf.gradients(terms, [variable for _, variable in combined]) if terms else [], combined)
    added = {variable.op.name: extra for extra, (_, variable) in found if extra is not None}
    return [
        (tf.convert_to_tensor(gradient) + added[variable.op.name], variable)
        if variable.op.name in added
        else (gradient, variable)
        for gradient, variable in combined
    ]


def _clipped(gradients, plan):
    clip = plan.clip
    return clip_gradients(gradients, clip["by"], clip["limit"], clip["sum_duplicates"]).gradients


def _checked(optimizer):
    if not isinstance(optimizer, tf.train.Optimizer):
        raise TowerError(
            f"optimizer: expected a function that returns one tf.train.Optimizer, got {type(optimizer).__name__}. "
            "All towers share one; return it from the function."
        )
    if optimizer.variables():
        raise TowerError(
            "optimizer: expected an optimizer that has not been applied yet, got one with slots. "
            "Return it as it was made: the towers' combined gradients are applied here."
        )
    return optimizer


def _to_every_copy(gradients, replicas):
    copied = copies_of(replicas)
    copies = [(gradient, copy) for gradient, variable in gradients for copy in copied.get(variable.op.name, [])]
    return list(gradients) + copies


def _recorded(replicas, combined, clipped, tower_clipped):
    recorded = tensors_of(gradient for pairs in [combined, clipped] + tower_clipped for gradient, _ in pairs)
    for replica in replicas:
        recorded += [replica.loss] + list(replica.outputs.values())
        recorded += tensors_of(gradient for gradient, _ in replica.gradients)
    return recorded


def _known(rows, plan):
    firsts = [row[0] for row in rows]
    counts = [len(first.terms) for first in firsts]
    factor = 1.0 / len(rows) if plan.regularization == "divided" else 1.0
    once = plan.regularization == "once"
    updates = choose_updates(plan.batch_norm_updates, [[one for tower in row for one in tower.updates] for row in rows])
    return {
        "regularization_terms": counts,
        "regularization_counts": effective_coefficient(counts, factor, firsts[0].available, plan.reduce, once),
        "racing_statistics": racing_updates(updates),
        "float32_in_float64": float32_places(firsts[0]),
    }
