"""Starts ranks and joins them in a process group, from one call or under torchrun."""

import contextlib
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from torch_ddp.errors import TorchDdpError

DEFAULT_TIMEOUT = 60.0
FROM_ENVIRONMENT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Rank(NamedTuple):
    """One process among those that train together.

    Fields:
      rank: 0 to ``world_size - 1`` over all machines.
      local_rank: the same on this machine; the number of its GPU.
      world_size: how many there are.
    """

    rank: int
    local_rank: int
    world_size: int


def rank_from_environment() -> Rank:
    """Returns the rank that torchrun gave to this process.

    Raises:
      TorchDdpError: the process was not started by torchrun.
    """
    missing = [name for name in FROM_ENVIRONMENT if name not in os.environ]
    if missing:
        raise TorchDdpError(
            f"group: expected the variables that torchrun sets, got no {', '.join(missing)}. "
            "Start the script with torchrun, or use torch_ddp.spawn."
        )
    return Rank(int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"]))


@contextlib.contextmanager
def process_group(
    rank: Rank | None = None,
    backend: str = "gloo",
    init_method: str = "env://",
    timeout: float = DEFAULT_TIMEOUT,
) -> Iterator[Rank]:
    """Joins this process to its group, and always leaves it again.

    Args:
      rank: which process this is; by default what torchrun says.
      backend: "gloo" for CPUs, "nccl" for GPUs, one rank per GPU. Always named: left out, torch calls it "undefined".
      init_method: where the ranks meet: "env://" under torchrun, "file:///…" or "tcp://host:port".
      timeout: seconds that a rank waits for the others before it raises.

    Yields:
      The `Rank`.

    Raises:
      TorchDdpError: not under torchrun and no rank given, or the backend is not there.
    """
    if backend == "nccl" and not torch.cuda.is_available():
        raise TorchDdpError("group: expected a GPU for the backend 'nccl', got none. Use backend 'gloo'.")
    who = rank or rank_from_environment()
    if backend == "nccl":
        torch.cuda.set_device(who.local_rank)
    dist.init_process_group(
        backend,
        init_method=init_method,
        rank=who.rank,
        world_size=who.world_size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    try:
        yield who
    finally:
        # Left undestroyed, gloo's threads now and then abort the process at its end.
        dist.destroy_process_group()


def spawn(
    function: Callable[..., None],
    world_size: int,
    *arguments: Any,
    backend: str = "gloo",
    timeout: float = DEFAULT_TIMEOUT,
) -> None:
    """Runs ``function(rank, *arguments)`` in `world_size` new processes on this machine, joined in a process group.

    Returns when all have ended. A rank that fails ends the others, and its traceback is what is raised here.

    Args:
      function: defined at the top level of a module; gets its `Rank` first.
      world_size: number of processes, at least 1.
      arguments: further arguments.
      backend: "gloo" or "nccl".
      timeout: seconds that a rank waits for the others in one collective.

    Raises:
      torch.multiprocessing.ProcessRaisedException: with the traceback of the rank that failed first.
      TorchDdpError: the world size is not positive.
    """
    if world_size < 1:
        raise TorchDdpError(f"spawn: expected at least one rank, got {world_size}.")
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        mp.spawn(  # type: ignore[no-untyped-call]
            _spawned, (function, world_size, meeting, backend, timeout, arguments), nprocs=world_size
        )


def _spawned(
    rank: int,
    function: Callable[..., None],
    world_size: int,
    meeting: str,
    backend: str,
    timeout: float,
    arguments: tuple[Any, ...],
) -> None:
    with process_group(Rank(rank, rank, world_size), backend, meeting, timeout) as who:
        function(who, *arguments)
