"""Builds the model once more as it is used after training: in inference mode, on the whole batch."""

import contextlib
import inspect
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.inputs import EXAMPLE_WEIGHTS
from tf_towers.graph.placement import place_variables
from tf_towers.graph.tower import loss_and_outputs
from tf_towers.tf_types import InputSpecs, Tensor, TowerFunction

MODE = "training"
# Of one batch in one mode; a graph that only evaluates would find them empty.
OF_A_BATCH = (tf.GraphKeys.LOSSES, tf.GraphKeys.UPDATE_OPS)


class Inference(NamedTuple):
    """The model in inference mode.

    Fields:
      inputs: dict of input name to the placeholder of the whole batch.
      loss: scalar, as the tower function returns it.
      outputs: dict of name to whatever else it returned.
    """

    inputs: Dict[str, Tensor]
    loss: Tensor
    outputs: Dict[str, Tensor]


def takes_mode(tower: TowerFunction, inputs: Iterable[str]) -> bool:
    """Returns whether a tower function takes the keyword `training` that says in which mode to build, and is no input.

    Args:
      tower: function of the inputs by name.
      inputs: their names.
    """
    arguments = inspect.getfullargspec(tower)
    return MODE not in inputs and MODE in arguments.args + arguments.kwonlyargs


def in_mode(call: Callable[[int, Any], Any], training: bool) -> Callable[[int, Mapping[str, Tensor]], Any]:
    """Returns a function ``(index, inputs)`` that calls `call` with the keyword `training` set."""
    return lambda index, inputs: call(index, dict(inputs, **{MODE: training}))


def build_inference(
    call: Callable[[int, Any], Any], inputs: InputSpecs, shard: Mapping[str, Tensor], home: Any, device: str
) -> Inference:
    """Builds the model in inference mode on the training's variables and the whole batch, as an `Inference`.

    Nothing of it trains: what it puts into collections is taken out again, and updates that it makes do not run.

    Args:
      call: function ``(index, inputs)`` that builds the model in inference mode and shares the variables, see `share`.
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      shard: dict of input name to tensor, what a tower gets in training: of padding also `example_weights`.
      home: where the first tower's variables live.
      device: where to compute.

    Raises:
      TowerError: the model makes variables that training has not made, or its loss is no scalar.
    """
    with tf.device(place_variables(home, device)), tf.name_scope("inference"), _collections_kept():
        known = tf.global_variables()
        fed = {name: tf.placeholder(dtype, shape, name) for name, (dtype, shape) in inputs.items()}
        whole = dict(fed)
        if EXAMPLE_WEIGHTS in shard and EXAMPLE_WEIGHTS not in whole:
            examples = next(tensor for tensor in whole.values() if tensor.shape.ndims)
            # [batch]: nothing is padded in an evaluation of the whole batch.
            whole[EXAMPLE_WEIGHTS] = tf.ones(tf.shape(examples)[:1], shard[EXAMPLE_WEIGHTS].dtype)
        # As tower 1: it shares variables and makes none, whatever the way of sharing.
        loss, outputs = loss_and_outputs(call, 1, whole)
        fresh = [one.op.name for one in tf.global_variables() if not any(one is other for other in known)]
    if fresh:
        raise TowerError(
            f"tower: expected it to use the training's variables with {MODE}=False, got new ones: {', '.join(fresh)}. "
            "Make the same variables in both modes."
        )
    return Inference(fed, loss, outputs)


@contextlib.contextmanager
def _collections_kept() -> Iterator[None]:
    graph = tf.get_default_graph()
    kept = {key: list(graph.get_collection(key)) for key in graph.get_all_collection_keys()}
    for key in OF_A_BATCH:
        del graph.get_collection_ref(key)[:]
    try:
        yield
    finally:
        for key in graph.get_all_collection_keys():
            # In place: optimizers and scripts may hold the list itself.
            graph.get_collection_ref(key)[:] = kept.get(key, [])
