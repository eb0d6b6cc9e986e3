"""The command-line options that say how many ranks train and where they meet, and what starts them."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from torch_ddp.errors import TorchDdpError
from torch_ddp.process_group import BACKENDS, DEFAULT_TIMEOUT, FROM_ENVIRONMENT, process_group, spawn


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--nodes`, `--gpus`, `--nr`, `--rendezvous`, `--backend` and `--timeout` to a parser, and their short forms."""
    group = parser.add_argument_group("launching", "left out under torchrun, which says so itself")
    group.add_argument("-n", "--nodes", type=int, default=1, help="number of machines")
    group.add_argument(
        "-g", "--gpus", type=int, default=1, help="ranks per machine: one per GPU, or any number on CPUs"
    )
    group.add_argument("-nr", "--nr", type=int, default=0, help="which machine this is, from 0")
    group.add_argument("--rendezvous", help="where several machines meet: tcp://host:port, or file:///path")
    group.add_argument("--backend", choices=BACKENDS, default="gloo", help="gloo for CPUs, nccl for GPUs")
    group.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="seconds to wait for the other ranks")


def under_torchrun() -> bool:
    """Returns whether this process was started by torchrun, as one of its ranks."""
    return all(name in os.environ for name in FROM_ENVIRONMENT)


def launch(function: Callable[..., None], options: argparse.Namespace, *arguments: Any) -> None:
    """Runs ``function(rank, *arguments)`` in every rank, however the script was started.

    Under torchrun this process is a rank already. Otherwise the ranks of this machine are started here, as `spawn` does.

    Args:
      function: defined at the top level of a module; gets its `Rank` first.
      options: what a parser with `add_launch_options` returned.
      arguments: further arguments.

    Raises:
      TorchDdpError: `--gpus`, `--nodes` or `--nr` were given under torchrun too, or do not fit together.
    """
    if not under_torchrun():
        spawn(
            function,
            options.gpus * options.nodes,
            *arguments,
            backend=options.backend,
            timeout=options.timeout,
            nodes=options.nodes,
            node=options.nr,
            rendezvous=options.rendezvous or _rendezvous_from_environment(),
        )
        return
    if (options.nodes, options.gpus, options.nr) != (1, 1, 0):
        raise TorchDdpError(
            "launch: expected torchrun alone to say how many ranks there are, got --nodes, --gpus or --nr as well. "
            "Pass --nnodes and --nproc-per-node to torchrun instead."
        )
    from torch.distributed.elastic.multiprocessing.errors import record

    # torchrun prints the traceback of the rank that failed first, if that rank leaves it one.
    record(_as_rank)(function, options, arguments)


def _as_rank(function: Callable[..., None], options: argparse.Namespace, arguments: tuple[Any, ...]) -> None:
    with process_group(backend=options.backend, timeout=options.timeout) as rank:
        function(rank, *arguments)


def _rendezvous_from_environment() -> str | None:
    # Where tutorials have the first machine's address.
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        return f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    return None
