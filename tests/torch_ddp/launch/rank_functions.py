"""What the tests of launching run in their ranks."""

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from torch_ddp import Rank

LISTENING = "0A"  # TCP_LISTEN of the kernel's tables


def leave_a_note(rank: Rank, folder: str, word: str = "") -> None:
    """Adds up the ranks' numbers and leaves the sum in a file named after this rank."""
    total = torch.tensor(float(rank.rank))
    dist.all_reduce(total)
    note = f"{rank.rank} {rank.local_rank} {rank.world_size} {int(total)} {dist.get_backend()} {word}"
    (Path(folder) / f"rank-{rank.rank}").write_text(note.strip())
    (Path(folder) / f"listens-{rank.rank}").write_text(" ".join(sorted(addresses_listened_at())))


def addresses_listened_at() -> set[str]:
    """Returns the addresses of the TCP sockets of this process that others can connect to."""
    ours = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them is closed again
            ours.add(os.readlink(descriptor))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in ours:
                # Words of four bytes in the machine's own order.
                words = bytes.fromhex(fields[1].partition(":")[0])
                packed = b"".join(words[place : place + 4][::-1] for place in range(0, len(words), 4))
                found.add(socket.inet_ntop(family, packed))
    return found


def fail_on(rank: Rank, failing: int, how: str, folder: str) -> None:
    """Fails in one rank while the others wait for it in a collective."""
    (Path(folder) / f"pid-{rank.rank}").write_text(str(os.getpid()))
    dist.all_reduce(torch.zeros(1))
    if rank.rank == failing:
        if how == "raise":
            raise RuntimeError("the cause of it all")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "exit":
            sys.exit(3)
        if how == "vanish":
            os._exit(3)
        time.sleep(600)
    dist.all_reduce(torch.zeros(1))


def notes(folder: Path) -> dict[int, str]:
    """Returns what `leave_a_note` left, by rank."""
    return {int(path.name.removeprefix("rank-")): path.read_text() for path in folder.glob("rank-*")}


def alive(pid: int) -> bool:
    """Returns whether a process of this number runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
