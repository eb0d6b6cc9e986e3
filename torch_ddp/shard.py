"""Cuts a batch over the ranks."""

from typing import NamedTuple

import torch
from torch import Tensor

from torch_ddp.errors import TorchDdpError

EXAMPLE_WEIGHTS = "example_weights"


class Shard(NamedTuple):
    """One rank's piece of a batch of any size.

    Fields:
      inputs: dict of input name to tensor ``[shard, ...]``.
      examples: how many of the batch's examples it holds; padding does not count.
    """

    inputs: dict[str, Tensor]
    examples: int


def shard(batch: dict[str, Tensor], rank: int, world_size: int, parts: str = "ranks") -> dict[str, Tensor]:
    """Returns this rank's contiguous piece of a batch: exactly what `tf.split` hands to the tower of that number.

    `torch.utils.data.DistributedSampler` deals examples out like cards instead, which matters to batch norm, dropout and
    any loss that is normalised per tower.

    Args:
      batch: dict of input name to tensor ``[batch, ...]``.
      rank: 0 to ``world_size - 1``; rank 0 gets the first examples.
      world_size: number of ranks; divides the batch size.
      parts: what the pieces are called in a message.

    Returns:
      Dict of input name to tensor ``[batch / world_size, ...]``, views of the batch.

    Raises:
      TorchDdpError: the batch size is not divisible by the number of ranks.

    Counterpart: tf_towers.shard
    """
    pieces = {}
    for name, tensor in batch.items():
        size = tensor.shape[0]
        if size % world_size:
            below = size - size % world_size
            choice = f"{below} or {below + world_size}" if below else str(world_size)
            raise TorchDdpError(
                f"shard: expected the batch of {name!r} to be divisible by {world_size} {parts}, got {size}. "
                f"Use {choice} examples."
            )
        piece = size // world_size
        # A view: the batch was copied to the device once, for all inputs.
        pieces[name] = tensor[rank * piece : (rank + 1) * piece]
    return pieces


def shard_uneven(batch: dict[str, Tensor], rank: int, world_size: int, policy: str) -> Shard:
    """Returns this rank's piece of a batch that need not divide, and how many examples count.

    Args:
      batch: dict of input name to tensor ``[batch, ...]``, at least one, all of one batch size.
      rank: 0 to ``world_size - 1``.
      world_size: number of ranks.
      policy: "drop" leaves out what remains at the end; "pad" repeats the last example up to the next multiple, and adds an
        input `example_weights`, 1 for an example and 0 for padding; "sizes" gives the first ranks one example more.

    Raises:
      TorchDdpError: the policy is none of these.

    Counterpart: tf_towers.shard_uneven
    """
    size = len(next(iter(batch.values())))
    if policy == "sizes":
        # As np.array_split: the first size % world_size ranks have one more, and those before this one shift it.
        low = rank * (size // world_size) + min(rank, size % world_size)
        high = low + size // world_size + (rank < size % world_size)
        return Shard({name: tensor[low:high] for name, tensor in batch.items()}, high - low)
    if policy == "drop":
        piece = size // world_size
        return Shard({name: tensor[rank * piece : (rank + 1) * piece] for name, tensor in batch.items()}, piece)
    if policy != "pad":
        raise TorchDdpError(f"shard_uneven: expected policy to be one of drop, pad, sizes, got {policy!r}.")
    # ceil(size / world_size): the batch is filled up to the next multiple, all of it at the end.
    piece = -(-size // world_size)
    first = next(iter(batch.values()))
    # int64 [piece], places in the filled batch; what is beyond the last example is that example again.
    places = torch.arange(rank * piece, (rank + 1) * piece, device=first.device)
    dtype = next((tensor.dtype for tensor in batch.values() if tensor.is_floating_point()), torch.float32)
    inputs = {name: tensor[places.clamp(max=size - 1)] for name, tensor in batch.items()}
    counting = places < size
    return Shard({**inputs, EXAMPLE_WEIGHTS: counting.to(dtype)}, int(counting.sum()))
