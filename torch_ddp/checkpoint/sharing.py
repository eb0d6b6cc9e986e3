"""Finds the newest checkpoint of all machines, and gives its file to those that lack it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from torch_ddp.checkpoint.files import SUFFIX_WHILE_WRITING, WholeFile, name_of, newest_file, writing_to
from torch_ddp.checkpoint.shards import shards_are_whole
from torch_ddp.process_group import Rank

PIECE_BYTES = 1 << 24  # of a file on its way to other machines


class _Holding(NamedTuple):
    # What one rank has; seven integers, as they travel.
    leads: int  # whether it looks for its machine
    step: int  # -1: no checkpoint
    size: int
    digest: tuple[int, int, int, int]  # 32 bits each

    @property
    def name(self) -> str:
        return name_of(self.step, b"".join(word.to_bytes(4, "big") for word in self.digest).hex())


@contextlib.contextmanager
def newest_of_all(folder: Path, rank: Rank, device: torch.device) -> Iterator[Path | None]:
    """Gives a file of this machine that holds the newest whole checkpoint of any machine; every rank enters it.

    One rank per machine looks into the folder. A machine that lacks the newest gets it piece by piece, in a file that is
    removed again when the block ends.

    Args:
      folder: where checkpoints lie on this machine.
      rank: this process.
      device: where the backend's tensors live.

    Yields:
      The file, None where no machine has one; the same content on every rank.
    """
    newest = newest_file(folder, shards_are_whole) if rank.local_rank == 0 else None
    if rank.world_size == 1:
        yield newest.path if newest else None
        return
    everyones = _everyones(_holding(newest, rank), rank, device)
    best = max(everyones, key=lambda holding: holding.step)
    if best.step < 0:
        yield None
        return
    # The lowest rank among those that have the newest: all ranks come to the same.
    source = everyones.index(best)
    lacking = [r for r, holding in enumerate(everyones) if holding.leads and holding.name != best.name]
    leader = rank.rank - rank.local_rank
    path = folder / best.name
    if leader in lacking:
        path = folder / f"{Path(best.name).stem}-{leader}{SUFFIX_WHILE_WRITING}"
    try:
        if lacking:
            _send(folder / best.name, best.size, source, path if rank.rank in lacking else None, rank, device)
        # What a machine's first rank receives, its others read.
        dist.barrier()
        yield path
        dist.barrier()
    finally:
        if rank.rank in lacking:
            path.unlink(missing_ok=True)


def _holding(newest: WholeFile | None, rank: Rank) -> _Holding:
    if newest is None:
        return _Holding(int(rank.local_rank == 0), -1, 0, (0, 0, 0, 0))
    digest = bytes.fromhex(newest.path.stem.rpartition("-")[2])
    first, second, third, fourth = (int.from_bytes(digest[at : at + 4], "big") for at in range(0, 16, 4))
    return _Holding(1, newest.step, newest.path.stat().st_size, (first, second, third, fourth))


def _everyones(own: _Holding, rank: Rank, device: torch.device) -> list[_Holding]:
    mine = torch.tensor([own.leads, own.step, own.size, *own.digest], dtype=torch.int64, device=device)
    gathered = [torch.zeros_like(mine) for _ in range(rank.world_size)]
    dist.all_gather(gathered, mine)
    rows = [row.tolist() for row in gathered]
    return [_Holding(leads, step, size, tuple(digest)) for leads, step, size, *digest in rows]


def _send(held: Path, size: int, source: int, received: Path | None, rank: Rank, device: torch.device) -> None:
    with contextlib.ExitStack() as files:
        reader = files.enter_context(held.open("rb")) if rank.rank == source else None
        writer = None
        if received is not None:
            received.parent.mkdir(parents=True, exist_ok=True)
            files.enter_context(writing_to(received))
            writer = files.enter_context(received.open("wb"))
        for begin in range(0, size, PIECE_BYTES):
            piece = torch.zeros(min(PIECE_BYTES, size - begin), dtype=torch.uint8, device=device)
            if reader is not None:
                piece.copy_(torch.frombuffer(bytearray(reader.read(len(piece))), dtype=torch.uint8))
            dist.broadcast(piece, src=source)
            if writer is not None:
                writer.write(piece.cpu().numpy().tobytes())
