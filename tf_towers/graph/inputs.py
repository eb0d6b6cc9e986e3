"""Makes the inputs of a graph: the whole batch, cut over the towers, or a feed for each tower."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.graph.input_pipeline import READ_BY_TOWERS, Source, read_by_towers
from tf_towers.graph.shard import shard, shard_uneven, tower_feeds
from tf_towers.tf_types import DType, Feeds, InputSpecs, Tensor

EXAMPLE_WEIGHTS = "example_weights"


class Feeding(NamedTuple):
    """How batches get into a graph.

    Fields:
      inputs: dict of input name to the placeholder of the whole batch, or to the list of the towers' placeholders.
      shards: a list over the towers of dicts of input name to tensor.
      examples: a list over the towers of int32 scalars, the examples that each one holds; None where all hold as many.
      feeds: function of a batch (dict of input name to array) that returns what `tf.Session.run` is fed.
      source: what towers read from that read by themselves, a `Source`, or None.
    """

    inputs: Dict[str, Any]
    shards: List[Dict[str, Tensor]]
    examples: Optional[List[Tensor]]
    feeds: Callable[[Mapping[str, Any]], Feeds]
    source: Optional[Source]


def make_feeding(inputs: InputSpecs, towers: int, cut: str = "split", uneven: str = "refuse") -> Feeding:
    """Makes placeholders and cuts them.

    Args:
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers.
      cut: "split", "slices", "feeds", or "queue" or "iterator" for towers that read by themselves.
      uneven: "refuse", or a policy of `shard_uneven`; with "pad" every tower gets an input more, `example_weights`.

    Returns:
      A `Feeding`.
    """
    if cut in READ_BY_TOWERS:
        reading = read_by_towers(inputs, towers, cut)
        return Feeding({}, reading.shards, None, reading.source.push, reading.source)
    if cut == "feeds":
        shards = tower_feeds(inputs, towers)
        # Six of 58 codebases feed their towers one by one, from a list of placeholders.
        placeholders = {name: [tower[name] for tower in shards] for name in inputs}
        return Feeding(placeholders, shards, None, lambda batch: _cut_arrays(batch, placeholders), None)
    placeholders = {name: tf.placeholder(dtype, shape, name) for name, (dtype, shape) in inputs.items()}

    def feeds(batch: Mapping[str, Any]) -> Feeds:
        return {placeholder: batch[name] for name, placeholder in placeholders.items()}

    # Else TensorFlow would cut on the first GPU, and copy the other towers' pieces from there.
    with tf.device("/cpu:0"):
        if uneven == "refuse":
            return Feeding(placeholders, shard(placeholders, towers, cut), None, feeds, None)
        cut_up = shard_uneven(placeholders, towers, uneven)
    if uneven == "pad":
        for pieces, weights in zip(cut_up.inputs, cut_up.weights):
            # In the batch's float dtype, since a tower multiplies its losses by them.
            pieces[EXAMPLE_WEIGHTS] = tf.cast(weights, _float_of(placeholders))
    return Feeding(placeholders, cut_up.inputs, cut_up.examples, feeds, None)


def _float_of(placeholders: Mapping[str, Tensor]) -> DType:
    floats = [tensor.dtype for tensor in placeholders.values() if tensor.dtype.is_floating]
    return floats[0] if floats else tf.float32


def _cut_arrays(batch: Mapping[str, Any], placeholders: Mapping[str, List[Tensor]]) -> Feeds:
    feeds: Feeds = {}
    for name, towers in placeholders.items():
        value = np.asarray(batch[name])
        if value.ndim and len(value) % len(towers):
            raise TowerError(
                f"step: expected {name!r} to have a multiple of {len(towers)} examples, got {len(value)}. "
                "Feed a whole batch."
            )
        # Contiguous pieces along the first axis, as tf.split makes them; a scalar goes to every tower.
        pieces = np.split(value, len(towers)) if value.ndim else [value] * len(towers)
        feeds.update(zip(towers, pieces))
    return feeds
