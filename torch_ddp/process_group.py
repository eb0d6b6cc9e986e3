"""Starts ranks and joins them in a process group, from one call or under torchrun."""

import contextlib
import datetime
import gc
import importlib
import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from parity.worker.parent import die_with_parent
from parity.worker.reaper import ended_when_killed, temporary_folder
from torch_ddp.errors import TorchDdpError
from torch_ddp.rank_failures import join_ranks, recorded
from torch_ddp.rendezvous import fresh_store, shares_store_over_restarts

BACKENDS = ("gloo", "nccl")
# Seconds; gloo's own are 30 minutes, nccl's 10: a rank that nobody joins says so within a minute.
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


def device_of(rank: Rank, backend: str) -> torch.device:
    """Returns where a rank trains: the CPU with "gloo", the GPU of its local rank with "nccl".

    Raises:
      TorchDdpError: the backend is another one, or this machine has no GPU of that number.
    """
    if backend not in BACKENDS:
        raise TorchDdpError(f"group: expected one of the backends {', '.join(BACKENDS)}, got {backend!r}. Name one.")
    if backend == "gloo":
        return torch.device("cpu")
    if rank.local_rank >= torch.cuda.device_count():
        raise TorchDdpError(
            f"group: expected a GPU of its own for local rank {rank.local_rank} with the backend 'nccl', "
            f"got {torch.cuda.device_count()} GPUs. Start fewer ranks, or use backend 'gloo'."
        )
    return torch.device("cuda", rank.local_rank)


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
      TorchDdpError: not under torchrun and no rank given, or the backend is unknown or lacks its GPU.
    """
    who = rank or rank_from_environment()
    device = device_of(who, backend)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    import_what_ddp_imports()
    limit = datetime.timedelta(seconds=timeout)
    store = _store_of(init_method, who, limit)
    meeting: dict[str, Any] = {"store": store} if store is not None else {"init_method": init_method}
    dist.init_process_group(backend, rank=who.rank, world_size=who.world_size, timeout=limit, **meeting)
    try:
        yield who
    finally:
        leave_process_group()


def _store_of(init_method: str, who: Rank, limit: datetime.timedelta) -> Store | None:
    """Returns where the ranks meet, where torch would look for it in the wrong place; None where it is right."""
    if init_method == "env://" and shares_store_over_restarts():
        # What init_process_group would do itself with env://, which gives it no store of one start alone.
        shared, _, _ = next(rendezvous(init_method, timeout=limit))
        return fresh_store(shared, who.rank, who.world_size, limit.total_seconds())
    address = urlsplit(init_method)
    if address.scheme == "file":
        # torch 2.13 takes the address's path as it is written: of a folder "a b" it would wait in "a%20b".
        store: Store = torch._C._distributed_c10d.FileStore(url2pathname(address.path), who.world_size)
        store.set_timeout(limit)
        return store
    return None


def leave_process_group() -> None:
    """Destroys the process group, in the only order that always ends; does nothing where there is none.

    A `DistributedDataParallel` owns a Reducer in C++, and that owns the group. Were the group left to it, the Reducer would
    join gloo's threads while its own thread holds Python's lock; one of these threads may still have to let go of the last
    sparse all-reduce, a Python object, and waits for that lock: neither ever ends (torch 2.13, within 150 rounds). So the
    Reducers of all wrapped models go first, while `torch.distributed` still holds the group; it destroys the group without
    the lock. A model that is still held keeps its weights, and can no longer be trained.

    What keeps the group alive otherwise, as a wrapped model does that is only reachable from itself, keeps gloo's threads;
    and these now and then abort the process at its end: they let go of tensors when Python is half gone (pytorch #190489).
    """
    if not dist.is_initialized():
        return
    # Models that only hold each other are gone after this, and need not be searched.
    gc.collect()
    for known in gc.get_objects():
        # type() and not isinstance, which asks the object for its __class__: proxies then run code of their own.
        if issubclass(type(known), DistributedDataParallel):
            known.__dict__.update(logger=None, reducer=None)  # the logger owns the Reducer too
    dist.destroy_process_group()


def import_what_ddp_imports() -> None:
    """Imports torch._dynamo, as the first DistributedDataParallel does.

    Imported while a process group is up, it keeps that group for ever, and with it gloo's threads, which outlive even
    `destroy_process_group` then (measured with torch 2.13).
    """
    importlib.import_module("torch._dynamo")


LOOPBACKS = ("lo", "lo0")  # of Linux, of macOS and BSD


def keep_to_this_machine() -> None:
    """Has the gloo ranks that this process starts connect over the loopback, unless the environment names an interface.

    gloo listens at the address that the host's own name has, which other machines may reach.
    """
    for _, name in socket.if_nameindex():
        if name in LOOPBACKS:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def spawn(
    function: Callable[..., None],
    world_size: int,
    *arguments: Any,
    backend: str = "gloo",
    timeout: float = DEFAULT_TIMEOUT,
    nodes: int = 1,
    node: int = 0,
    rendezvous: str | None = None,
) -> None:
    """Runs ``function(rank, *arguments)`` in new processes, joined in a process group.

    On one machine it starts all ranks. On several, call it once on each: it starts that machine's share, numbered as
    ``node * world_size / nodes`` and up. Returns when this machine's ranks have ended. A rank that fails ends the
    others; the traceback of the one that failed first is raised here.

    Args:
      function: defined at the top level of a module; gets its `Rank` first.
      world_size: number of processes over all machines, at least 1.
      arguments: further arguments; they are pickled.
      backend: "gloo" or "nccl".
      timeout: seconds that a rank waits for the others in one collective.
      nodes: number of machines; divides `world_size`.
      node: which of them this is, 0 to ``nodes - 1``.
      rendezvous: where the ranks meet: "tcp://host:port" of the first machine, or "file:///path" of a file that all
        see and that does not exist yet. On one machine it may be left out.

    Raises:
      torch.multiprocessing.ProcessRaisedException: with the traceback of the rank that failed first.
      torch.multiprocessing.ProcessExitedException: a rank ended without one: it was killed, or left by itself.
      TorchDdpError: the numbers do not fit together, several machines have no rendezvous, or there is no room for temporary
        files.
    """
    _check_nodes(world_size, nodes, node, rendezvous)
    from torch.multiprocessing.spawn import start_processes

    with temporary_folder() as folder:
        meeting = rendezvous or (Path(folder) / "meeting").as_uri()
        if rendezvous is None:
            keep_to_this_machine()
            _require_room(Path(folder))
        # Whole numbers, as `_check_nodes` made sure.
        first, count = node * world_size // nodes, world_size // nodes
        # What a rank has not come to yet, such as a line of ours while it imports torch, cannot tie it to this process.
        with ended_when_killed(RANKS_VARIABLE, folder):
            with _in_environment(RANKS_VARIABLE, folder):
                started = start_processes(  # type: ignore[no-untyped-call]
                    _spawned,
                    (first, function, world_size, meeting, backend, timeout, arguments, folder),
                    nprocs=count,
                    join=False,
                    start_method="spawn",
                )
            join_ranks(started, first, Path(folder), timeout)


RANKS_VARIABLE = "TORCH_DDP_RANKS_OF"  # in the environment of what `spawn` starts, by which that is known


@contextlib.contextmanager
def _in_environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


BYTES_TO_MEET = 65_536  # far more than ranks of one machine write where they meet


def _require_room(folder: Path) -> None:
    # A rank that cannot write there dies with the file locked to the others, who wait for ever, in C++ and past any time-out
    # (torch 2.13).
    try:
        probe = folder / "room"
        probe.write_bytes(bytes(BYTES_TO_MEET))
        probe.unlink()
    except OSError as error:
        raise TorchDdpError(
            f"spawn: expected room for {BYTES_TO_MEET} bytes in {folder}, where ranks meet, got: {error.strerror}. "
            "Make room there, or name another folder in TMPDIR."
        ) from error


def _pid_of_parent() -> int:
    parent = multiprocessing.parent_process()
    assert parent is not None and parent.pid is not None  # for this is a process that `spawn` has started
    return parent.pid


def _check_nodes(world_size: int, nodes: int, node: int, rendezvous: str | None) -> None:
    if world_size < 1:
        raise TorchDdpError(f"spawn: expected at least one rank, got {world_size}. Ask for more.")
    if nodes < 1 or world_size % nodes:
        raise TorchDdpError(
            f"spawn: expected the nodes to share {world_size} ranks evenly, got {nodes} nodes. Change either number."
        )
    if not 0 <= node < nodes:
        raise TorchDdpError(f"spawn: expected a node from 0 to {nodes - 1}, got {node}. Number the machines from 0.")
    if nodes > 1 and rendezvous is None:
        raise TorchDdpError(
            f"spawn: expected a rendezvous for {nodes} nodes, got none. "
            "Pass 'tcp://host:port' of the first machine, or 'file:///path' of a new file that all see."
        )


def _spawned(
    local_rank: int,
    first: int,
    function: Callable[..., None],
    world_size: int,
    meeting: str,
    backend: str,
    timeout: float,
    arguments: tuple[Any, ...],
    folder: str,
) -> None:
    # Ranks whose parent is killed would train on, and wait for each other in collectives.
    die_with_parent(_pid_of_parent())
    rank = Rank(first + local_rank, local_rank, world_size)
    record = Path(folder)
    # A failure is put on record before the group is left: leaving makes the others fail, maybe faster.
    with (
        recorded(record, rank.rank),
        process_group(rank, backend, meeting, timeout) as who,
        recorded(record, rank.rank),
    ):
        function(who, *arguments)
