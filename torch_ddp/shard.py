"""Cuts a batch over the ranks."""

from torch import Tensor

from torch_ddp.errors import TorchDdpError


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
        pieces[name] = tensor[rank * piece : (rank + 1) * piece]
    return pieces
