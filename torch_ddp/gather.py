"""Brings every rank's named arrays to rank 0, without pickling anything."""

import hashlib

import numpy as np
import torch
import torch.distributed as dist

from parity.trace import decode, encode
from torch_ddp.group import Rank


def gather(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> list[dict[str, np.ndarray]] | None:
    """Returns on rank 0 a list over the ranks of their dicts of arrays, None on the others.

    Args:
      arrays: this rank's dict of name to array; names and shapes may differ between ranks.
      rank: this process.
      device: where the backend's tensors live.
    """
    if rank.world_size == 1:
        return [arrays]
    data = torch.frombuffer(bytearray(b"".join(bytes(part) for part in encode(arrays))), dtype=torch.uint8).to(device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(rank.world_size)]
    dist.all_gather(sizes, torch.tensor([data.numel()], dtype=torch.int64, device=device))
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8, device=device)
    padded[: data.numel()] = data
    parts = [torch.zeros_like(padded) for _ in sizes] if rank.rank == 0 else None
    dist.gather(padded, parts, dst=0)
    if parts is None:
        return None
    return [decode(part[: int(size)].cpu().numpy().tobytes()) for part, size in zip(parts, sizes, strict=True)]


def ranks_agree(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> bool:
    """Returns whether all ranks hold the same bits in `arrays`: the weights should, after every step."""
    if rank.world_size == 1:
        return True
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    own = torch.tensor([int.from_bytes(digest.digest(), "little", signed=True)], device=device)
    everyone = [torch.zeros_like(own) for _ in range(rank.world_size)]
    dist.all_gather(everyone, own)
    return all(bool(other == own) for other in everyone)
