"""Cuts a batch over the towers."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from tf_towers.errors import TowerError
from tf_towers.tf_types import InputSpecs, Tensor

CUTS = ("split", "slices", "feeds", "queue", "iterator")
UNEVEN = ("refuse", "drop", "pad", "sizes")


class Shards(NamedTuple):
    """A batch of any size, cut over the towers.

    Fields:
      inputs: a list over the towers of dicts of input name to tensor.
      examples: a list over the towers of int32 scalars, how many of the batch's examples each one holds.
      weights: a list over the towers of float32 ``[shard]``, 1 for an example of the batch and 0 for padding.
    """

    inputs: List[Dict[str, Tensor]]
    examples: List[Tensor]
    weights: List[Tensor]


def shard(batch: Mapping[str, Any], towers: int, cut: str = "split", parts: str = "towers") -> List[Dict[str, Any]]:
    """Cuts every input of a batch into one contiguous piece per tower.

    Args:
      batch: dict of input name to tensor or `tf.SparseTensor` ``[batch, ...]``, or to another such dict, as features
        often come; a scalar (a learning rate, a dropout rate) goes to every tower as it is.
      towers: number of towers, at least 1; divides the batch size.
      cut: "split" with `tf.split`, or "slices" ``x[i * size : (i + 1) * size]``, which is what towers with one
        placeholder and an index do. Both give the same.
      parts: what the pieces are called in a message.

    Returns:
      A list over the towers of dicts of input name to tensor ``[batch / towers, ...]``; tower 0 holds the first examples.

    Raises:
      TowerError: the batch size is not divisible by the number of towers. Where the size is not known before the run,
        `tf.split` raises InvalidArgumentError there, and slices lose the remainder.

    Counterpart: torch_ddp.shard
    """
    pieces = {name: _cut(name, value, towers, cut, parts) for name, value in batch.items()}
    return [{name: pieces[name][tower] for name in pieces} for tower in range(towers)]


def shard_uneven(batch: Mapping[str, Any], towers: int, policy: str) -> Shards:
    """Cuts a batch that need not divide, and says which examples count.

    Args:
      batch: dict of input name to tensor ``[batch, ...]``, all of one batch size, known or not.
      towers: number of towers, at least 1.
      policy: "drop" leaves out what remains at the end; "pad" repeats the last example up to the next multiple, with
        weight 0; "sizes" gives the first towers one example more (`tf.split` with sizes), and none to the last ones
        where there are fewer examples than towers.

    Returns:
      `Shards`. A mean over the batch is the mean of the towers' means weighted by `examples`; the plain mean of the
      towers' means is another number.
    """
    size = tf.shape(next(tensor for tensor in batch.values() if tensor.shape.ndims != 0))[0]
    known = [_static_size(tensor) for tensor in batch.values() if tensor.shape.ndims != 0]
    each = known[0] if known[0] is not None else size
    if policy == "sizes":
        # 11 examples over 4 towers: 3, 3, 3, 2
        sizes = [each // towers + _one_if(tower < each % towers) for tower in range(towers)]
        cut = {name: _split(tensor, sizes) for name, tensor in batch.items()}
        examples = [tf.cast(size, tf.int32) for size in sizes]
        weights = [tf.ones([size]) for size in sizes]
    elif policy == "drop":
        whole = each - each % towers
        cut = {name: _slices(tensor, towers, whole // towers) for name, tensor in batch.items()}
        examples = [tf.cast(whole // towers, tf.int32)] * towers
        weights = [tf.ones([whole // towers])] * towers
    elif policy == "pad":
        # 11 examples over 4 towers: 1, the last example once more
        missing = -each % towers
        cut = {name: _slices(_padded(tensor, missing), towers) for name, tensor in batch.items()}
        weights = tf.split(tf.concat([tf.ones([each]), tf.zeros([missing])], 0), towers)
        examples = [tf.cast(tf.reduce_sum(weight), tf.int32) for weight in weights]
    else:
        raise TowerError(f"shard_uneven: expected policy to be one of drop, pad, sizes, got {policy!r}.")
    return Shards([{name: cut[name][tower] for name in cut} for tower in range(towers)], examples, weights)


def tower_feeds(inputs: InputSpecs, towers: int) -> List[Dict[str, Tensor]]:
    """Makes a placeholder per input and tower, for code that feeds its towers one by one.

    Args:
      inputs: dict of input name to ``(dtype, shape)`` of the whole batch.
      towers: number of towers; divides the batch size.

    Returns:
      A list over the towers of dicts of input name to placeholder ``[batch / towers, ...]``.

    Raises:
      TowerError: the batch size is not divisible by the number of towers.
    """
    made: List[Dict[str, Tensor]] = [{} for _ in range(towers)]
    for name, (dtype, shape) in inputs.items():
        if shape and shape[0] is not None and shape[0] % towers:
            raise TowerError(_not_divisible(name, shape[0], towers, "towers"))
        piece = [shape[0] and shape[0] // towers] + list(shape[1:]) if shape else []
        for tower in range(towers):
            made[tower][name] = tf.placeholder(dtype, piece, f"{name}_{tower}")
    return made


def _cut(name: str, value: Any, towers: int, cut: str, parts: str) -> List[Any]:
    if isinstance(value, dict):
        return shard(value, towers, cut, parts)
    if value.shape.ndims == 0:
        return [value] * towers
    size = _static_size(value)
    if size is not None and size % towers:
        raise TowerError(_not_divisible(name, size, towers, parts))
    # tf.split takes no sparse tensor; features of OpenNMT-tf and of replicate_model_fn may be such.
    if isinstance(value, tf.SparseTensor):
        return tf.sparse.split(sp_input=value, num_split=towers, axis=0)
    # Contiguous either way: tower i has examples i * size to (i + 1) * size, where DistributedSampler deals out in
    # turn.
    return _slices(value, towers) if cut == "slices" else tf.split(value, towers, axis=0)


def _not_divisible(name: str, size: int, towers: int, parts: str) -> str:
    below = size - size % towers
    nearest = f"{below} or {below + towers}" if below else f"{towers}"
    return (
        f"shard: expected the batch of {name!r} to be divisible by {towers} {parts}, got {size}. "
        f"Use {nearest} examples."
    )


def _static_size(tensor: Tensor) -> Any:
    size = tensor.shape[0] if tensor.shape.ndims else None
    # A Dimension in 1.15, an int or None in 2.x.
    return getattr(size, "value", size)


def _slices(tensor: Tensor, towers: int, piece: Any = None) -> List[Tensor]:
    if tensor.shape.ndims == 0:
        return [tensor] * towers
    if piece is None:
        size = _static_size(tensor)
        piece = (tf.shape(tensor)[0] if size is None else size) // towers
    return [tensor[tower * piece : (tower + 1) * piece] for tower in range(towers)]


def _split(tensor: Tensor, sizes: Sequence[Any]) -> List[Tensor]:
    return [tensor] * len(sizes) if tensor.shape.ndims == 0 else tf.split(tensor, sizes, axis=0)


def _padded(tensor: Tensor, missing: Any) -> Tensor:
    if tensor.shape.ndims == 0:
        return tensor
    # (missing, ...)
    last = tf.tile(tensor[-1:], tf.concat([[missing], tf.ones([tensor.shape.ndims - 1], tf.int32)], 0))
    padded = tf.concat([tensor, last], 0)
    if isinstance(missing, int):
        # The concatenation forgets a size that is known, which layers with dense weights need.
        padded.set_shape([_static_size(tensor) + missing] + tensor.shape.as_list()[1:])
    return padded


def _one_if(condition: Any) -> Any:
    return tf.cast(condition, tf.int32) if isinstance(condition, tf.Tensor) else int(condition)
