"""Gives all ranks the same batch-norm statistics."""

import torch.distributed as dist
from torch import nn

from torch_ddp.group import Rank


def broadcast_statistics(model: nn.Module, rank: Rank) -> None:
    """Overwrites every rank's buffers with rank 0's: what DDP does at the next training step anyway.

    After a step each rank's batch norm has seen its own shard alone, and DDP evens that out only before the next one.
    Evaluated in between, each rank would use statistics of its own. Rank 0's are the ones that a checkpoint holds, and
    what TensorFlow's usual rule keeps: the first tower's.

    Args:
      model: wrapped or not; its buffers are overwritten.
      rank: this process.
    """
    if rank.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)
