"""Builds the graph of tower training: one model, a replica per device, one update."""

import functools
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.float64.float_attributes import attributes_as_written
from tf_towers.graph.gradients import Gradients, make_gradients
from tf_towers.graph.inference import MODE, build_inference, in_mode, takes_mode
from tf_towers.graph.inputs import Feeding, make_feeding
from tf_towers.graph.options import Plan, make_plan
from tf_towers.graph.placement import homes, place_variables, tower_devices
from tf_towers.graph.regularization import effective_coefficient
from tf_towers.graph.tower import Tower, build_replicas
from tf_towers.graph.training import Parts, Training, broadcast, collect, copies_of
from tf_towers.graph.update.apply_update import all_finite, gated_update, tensors_of
from tf_towers.graph.update.batch_norm_updates import choose_updates, racing_updates
from tf_towers.graph.update.loss_scale import LossScale
from tf_towers.graph.update.moving_averages import Averages
from tf_towers.graph.update.optimizer import Part, SeveralOptimizers, learning_rate, parts_of
from tf_towers.graph.user_errors import float32_places, inexact_ops, require_arguments, require_graph_mode
from tf_towers.graph.variable_sharing import share
from tf_towers.tf_types import Graph, InputSpecs, Optimizer, Pairs, Tensor, TowerFunction


def build(
    tower: TowerFunction,
    inputs: InputSpecs,
    towers: int,
    optimizer: Callable[[], Optimizer],
    reduce: str = "mean",
    variables: str = "cpu",
    batch_norm_updates: str = "first",
    gpus: Sequence[str] = (),
    seed: int = 0,
    optimizers: Optional[Mapping[str, Part]] = None,
    **options: Any,
) -> Training:
    """Builds towers under shared variables, combines their gradients, applies one update.

    Args:
      tower: function of the inputs by name that returns a scalar loss, or ``(loss, dict of name to tensor)``; it makes
        its variables with `tf.get_variable` (or layers that do), and follows the dtype of its inputs. One that takes the
        keyword `training` is built with it on, and once more with it off, for `Stepper.evaluate`.
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers; divides the batch size unless `uneven` says what else.
      optimizer: function without arguments that makes the `tf.train.Optimizer`, called inside the graph.
      reduce: how the towers' gradients become one, "mean", "sum" or another choice of `Plan`.
      variables: "cpu" keeps them on the host, "first_gpu" on the first tower's device; "balanced" and "replicated" are
        explained at `homes`.
      batch_norm_updates: whose `UPDATE_OPS` run: the "first" tower's, the "last" one's, or all in the order of the towers.
      gpus: devices to use; virtual CPUs where they do not suffice.
      seed: of the graph.
      optimizers: dict of name to `Part`: more optimizers, each for a part of the variables.
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
        # An op's own seed is then its number in the graph: masks differ from tower to tower, and between TensorFlows
        # (measured).
        tf.set_random_seed(seed)
        feeding = make_feeding(inputs, towers, plan.cut, plan.uneven)
        devices = tower_devices(towers, gpus)
        where, center = homes(variables, devices)
        with tf.device(place_variables(center, center)):
            scale = LossScale(plan.loss_scale) if plan.loss_scale is not None else None
        parts = optimizers or {}
        call, modes = share(tower, plan.share), takes_mode(tower, inputs)
        require_arguments(tower, [*feeding.shards[0], *([MODE] if modes else [])])
        in_training = in_mode(call, True) if modes else call
        with attributes_as_written(feeding.shards[0]):
            rows = build_replicas(
                tower, feeding.shards, devices, where, plan, scale and scale.value, parts, in_training
            )
        with tf.device(place_variables(center, center)):
            training = _train(graph, feeding, rows, optimizer, plan, scale, parts)
        if not modes:
            return training
        with attributes_as_written(feeding.shards[0]):
            built = build_inference(in_mode(call, False), inputs, feeding.shards[0], where[0], devices[0])
        return training._replace(inference=built)


def _train(
    graph: Graph,
    feeding: Feeding,
    rows: Sequence[Sequence[Tower]],
    optimizer: Callable[[], Optimizer],
    plan: Plan,
    scale: Optional[LossScale],
    parts: Mapping[str, Part],
) -> Training:
    replicas = [replica for row in rows for replica in row]
    weights = [variable for _, variable in replicas[0].gradients]
    gradients = make_gradients(rows, feeding.examples, plan)
    # Of the combined ones, which have every tower's infinity; before clipping, which makes NaN of all by an infinite
    # norm.
    finite = all_finite(gradients.combined) if scale and scale.dynamic else None
    # Before the optimizer makes any of its own.
    of_towers = tf.global_variables()
    of_parts = parts_of(parts, [variable.op.name for variable in weights])
    made, others = _checked(optimizer()), {name: _checked(part.make()) for name, part in parts.items()}
    if others:
        made = SeveralOptimizers(made, others, of_parts)
    global_step = tf.train.get_or_create_global_step()
    # Now, for the rate is recorded, and the update waits for all that is: apply_gradients would make it too late.
    made._prepare()
    rates = {"": learning_rate(made.first if others else made)}
    rates.update((name, learning_rate(other)) for name, other in others.items())
    recorded = _recorded(replicas, gradients) + tensors_of([finite] + list(rates.values()))
    averages = Averages(plan.ema, global_step, weights) if plan.ema else None
    after = ([averages.move] if averages else []) + (
        [functools.partial(scale.move, finite)] if scale and finite is not None else []
    )
    # The same gradient for every copy, and so, from equal values on, the same update.
    applied = _to_every_copy(gradients.clipped or gradients.combined, replicas)
    train_op = gated_update(made, applied, global_step, recorded, replicas, plan, finite, after)
    sorted_out = collect(
        made,
        weights,
        of_towers,
        copies_of(replicas),
        dict(scale.variables if scale else {}, global_step=global_step),
        averages.variables() if averages else {},
    )
    return Training(
        graph=graph,
        inputs=feeding.inputs,
        towers=replicas,
        combined=gradients.combined,
        optimizer=made,
        global_step=global_step,
        train_op=train_op,
        plan=plan,
        feeds=feeding.feeds,
        rate=rates.pop(""),
        tower_clipped=gradients.tower_clipped,
        clipped=gradients.clipped,
        broadcast=broadcast(sorted_out["saved"], sorted_out["copies"]),
        finite=finite,
        known=dict(_known(rows, plan), racing_averages=_racing(averages, plan)),
        source=feeding.source,
        parts=Parts(of_parts, made.counters() if others else {}, rates),
        inference=None,
        **sorted_out,
    )


def _racing(averages: Optional[Averages], plan: Plan) -> List[str]:
    return sorted(averages.variables()) if averages and plan.ema and plan.ema["order"] == "unordered" else []


def _checked(optimizer: Optimizer) -> Optimizer:
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


def _to_every_copy(gradients: Pairs, replicas: Sequence[Tower]) -> Pairs:
    copied = copies_of(replicas)
    copies = [(gradient, copy) for gradient, variable in gradients for copy in copied.get(variable.op.name, [])]
    return list(gradients) + copies


def _recorded(replicas: Sequence[Tower], gradients: Gradients) -> List[Tensor]:
    lists = [gradients.combined, gradients.clipped] + gradients.tower_clipped
    recorded = tensors_of(gradient for pairs in lists for gradient, _ in pairs)
    for replica in replicas:
        recorded += [replica.loss] + list(replica.outputs.values())
        recorded += tensors_of(gradient for gradient, _ in replica.gradients)
    return recorded


def _known(rows: Sequence[Sequence[Tower]], plan: Plan) -> Dict[str, Any]:
    firsts = [row[0] for row in rows]
    counts = [len(first.terms) for first in firsts]
    factor = 1.0 / len(rows) if plan.regularization == "divided" else 1.0
    once = plan.regularization == "once"
    if plan.accumulate and plan.accumulate["reduce"] == "sum":
        # Every micro-batch's loss has the terms, and summed they count that often.
        factor *= plan.accumulate["steps"]
    joined = {"synchronised": firsts[0].synchronised} if plan.batch_norm == "synchronised" else {}
    updates = choose_updates(plan.batch_norm_updates, [[one for tower in row for one in tower.updates] for row in rows])
    return {
        "regularization_terms": counts,
        "regularization_counts": effective_coefficient(counts, factor, firsts[0].available, plan.reduce, once),
        "racing_statistics": racing_updates(updates),
        "float32_in_float64": float32_places(firsts[0]),
        "inexact_in_float64": inexact_ops(firsts[0]),
        **joined,
    }
