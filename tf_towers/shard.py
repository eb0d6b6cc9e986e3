"""Cuts a batch over the towers."""

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError


def shard(batch, towers):
    """Cuts every input of a batch into one contiguous piece per tower with `tf.split`.

    Args:
      batch: dict of input name to tensor ``[batch, ...]``.
      towers: number of towers, at least 1; divides the batch size.

    Returns:
      A list over the towers of dicts of input name to tensor ``[batch / towers, ...]``; tower 0 holds the first examples.

    Raises:
      TowerError: the batch size is not divisible by the number of towers.

    Counterpart: torch_ddp.shard
    """
    pieces = {}
    for name, tensor in batch.items():
        size = tensor.shape[0]
        size = getattr(size, "value", size)
        if size is not None and size % towers:
            raise TowerError(
                f"shard: expected the batch of {name!r} to be divisible by {towers} towers, got {size}. "
                f"Use {size - size % towers} or {size - size % towers + towers} examples."
            )
        pieces[name] = tf.split(tensor, towers, axis=0)
    return [{name: pieces[name][tower] for name in pieces} for tower in range(towers)]
