"""Brings every rank's named arrays to rank 0 or to all, without pickling anything."""

import hashlib

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from parity.trace import decode, encode
from torch_ddp.process_group import Rank


def gather(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> list[dict[str, np.ndarray]] | None:
    """Returns on rank 0 a list over the ranks of their dicts of arrays, None on the others.

    Args:
      arrays: this rank's dict of name to array; names and shapes may differ between ranks.
      rank: this process.
      device: where the backend's tensors live.
    """
    if rank.world_size == 1:
        return [arrays]
    padded, sizes = _padded(arrays, rank, device)
    parts = [torch.zeros_like(padded) for _ in sizes] if rank.rank == 0 else None
    dist.gather(padded, parts, dst=0)
    return None if parts is None else _unpadded(parts, sizes)


def gather_everywhere(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> list[dict[str, np.ndarray]]:
    """Returns on every rank a list over the ranks of their dicts of arrays; arguments as for `gather`."""
    if rank.world_size == 1:
        return [arrays]
    padded, sizes = _padded(arrays, rank, device)
    parts = [torch.zeros_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return _unpadded(parts, sizes)


def ranks_agree(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> bool:
    """Returns whether all ranks hold the same bits in `arrays`: the weights should, after every step."""
    if rank.world_size == 1:
        return True
    # 64 bits fit one int64 of a collective. Names are sorted: dictionaries of ranks may differ in order.
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    own = torch.tensor([int.from_bytes(digest.digest(), "little", signed=True)], device=device)
    everyone = [torch.zeros_like(own) for _ in range(rank.world_size)]
    dist.all_gather(everyone, own)
    return all(bool(other == own) for other in everyone)


def _padded(arrays: dict[str, np.ndarray], rank: Rank, device: torch.device) -> tuple[Tensor, list[int]]:
    # Collectives want the same size of every rank: everyone learns the longest, and pads to it.
    data = torch.frombuffer(bytearray(b"".join(bytes(part) for part in encode(arrays))), dtype=torch.uint8).to(device)
    found = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(rank.world_size)]
    dist.all_gather(found, torch.tensor([data.numel()], dtype=torch.int64, device=device))
    sizes = [int(size) for size in found]
    padded = torch.zeros(max(sizes), dtype=torch.uint8, device=device)
    padded[: data.numel()] = data
    return padded, sizes


def _unpadded(parts: list[Tensor], sizes: list[int]) -> list[dict[str, np.ndarray]]:
    return [decode(part[:size].cpu().numpy().tobytes()) for part, size in zip(parts, sizes, strict=True)]
