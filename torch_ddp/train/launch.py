"""The command-line options that say how many ranks train and where they meet, and what starts them."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from torch_ddp.errors import TorchDdpError
from torch_ddp.process_group import BACKENDS, DEFAULT_TIMEOUT, FROM_ENVIRONMENT, spawn
from torch_ddp.train.elastic import LAUNCHER, run_as_rank, run_elastically


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--nodes`, `--gpus`, `--nr`, `--rendezvous`, `--max-restarts`, `--backend` and `--timeout`, and short forms."""
    group = parser.add_argument_group("launching", "left out under torchrun, which says so itself")
    group.add_argument("-n", "--nodes", type=int, default=1, help="number of machines")
    group.add_argument(
        "-g", "--gpus", type=int, default=1, help="ranks per machine: one per GPU, or any number on CPUs"
    )
    group.add_argument("-nr", "--nr", type=int, default=0, help="which machine this is, from 0")
    group.add_argument("--rendezvous", help="where several machines meet: tcp://host:port, or file:///path")
    group.add_argument("--max-restarts", type=int, default=0, help="how often all ranks start again after one failed")
    group.add_argument("--backend", choices=BACKENDS, default="gloo", help="gloo for CPUs, nccl for GPUs")
    group.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="seconds to wait for the other ranks")


def under_torchrun() -> bool:
    """Returns whether this process was started by torchrun, as one of its ranks."""
    return all(name in os.environ for name in FROM_ENVIRONMENT)


def launch(function: Callable[..., None], options: argparse.Namespace, *arguments: Any) -> None:
    """Runs ``function(rank, *arguments)`` in every rank, however the script was started.

    Under torchrun this process is a rank already. Otherwise the ranks of this machine are started here, as `spawn` does;
    with `--max-restarts` by torch's elastic launcher, as torchrun does: each rank runs the whole script, and all of them
    start again after one failed.

    Args:
      function: defined at the top level of a module; gets its `Rank` first.
      options: what a parser with `add_launch_options` returned.
      arguments: further arguments.

    Raises:
      TorchDdpError: `--gpus`, `--nodes`, `--nr` or `--max-restarts` were given under torchrun too, or do not fit together.
      SystemExit: with code 143 or 138, after a signal of a scheduler; with 1 where the ranks have failed too often.
    """
    if not under_torchrun() and options.max_restarts:
        run_elastically(options)
        return
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
    if LAUNCHER not in os.environ and (options.nodes, options.gpus, options.nr, options.max_restarts) != (1, 1, 0, 0):
        raise TorchDdpError(
            "launch: expected torchrun alone to say how many ranks there are, got --nodes, --gpus or --nr as well. "
            "Pass --nnodes and --nproc-per-node to torchrun instead."
        )
    run_as_rank(function, options.backend, options.timeout, arguments)


def _rendezvous_from_environment() -> str | None:
    # Where tutorials have the first machine's address.
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        return f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    return None
