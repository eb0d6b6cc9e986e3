"""Starts ranks by torch's elastic launcher, which starts all of them again after one failed."""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from parity.worker.parent import die_with_parent
from torch_ddp.errors import TorchDdpError
from torch_ddp.process_group import keep_to_this_machine, process_group
from torch_ddp.rank_failures import PREEMPTED, PREEMPTIONS

TCP = "tcp://"
SECONDS_TO_END = 30  # from SIGTERM to SIGKILL
OTHER_SIGNALS = ("SIGINT", "SIGHUP", "SIGQUIT")  # that the launcher handles besides
LAUNCHER = "TORCH_DDP_LAUNCHER"  # in the environment of ranks: the process that started them


def run_elastically(options: argparse.Namespace) -> None:
    """Runs this program once more in each of this machine's ranks, over as many starts as `options.max_restarts` allows.

    That is what torchrun does, by the same launcher; it returns when all ranks have.

    Args:
      options: what a parser with `add_launch_options` returned.

    Raises:
      TorchDdpError: several machines have no address to meet at.
      SystemExit: with code 143 or 138, after a signal of a scheduler; with 1 where the ranks have failed too often, after
        the traceback of the one that failed first.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[LAUNCHER] = str(os.getpid())
    if options.nodes == 1:
        keep_to_this_machine()
    with tempfile.TemporaryDirectory() as folder:
        config = LaunchConfig(
            min_nodes=options.nodes,
            max_nodes=options.nodes,
            nproc_per_node=options.gpus,
            rdzv_backend="c10d",
            rdzv_endpoint=_endpoint(options),
            run_id="torch_ddp",
            max_restarts=options.max_restarts,
            local_addr="localhost" if options.nodes == 1 else None,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
            signals_to_handle=",".join([*(number.name for number in PREEMPTIONS), *_there(OTHER_SIGNALS)]),
            shutdown_timeout=SECONDS_TO_END,
        )
        try:
            # As processes of their own, of which the launcher learns when each failed: of functions it reports one that did.
            elastic_launch(config, sys.executable)(*sys.orig_argv[1:])
        except SignalException as error:
            raise SystemExit(128 + error.sigval) from None
        except ChildFailedError as error:
            codes = {failure.exitcode for failure in error.failures.values()}
            if codes <= PREEMPTED:
                raise SystemExit(max(codes)) from None
            print(error, file=sys.stderr)
            raise SystemExit(1) from None


def run_as_rank(function: Callable[..., None], backend: str, timeout: float, arguments: tuple[Any, ...]) -> None:
    """Runs ``function(rank, *arguments)`` as the rank that the environment names, and leaves the launcher its traceback."""
    from torch.distributed.elastic.multiprocessing.errors import record

    if launcher := os.environ.get(LAUNCHER):
        # It would train on, and wait for the others in collectives.
        die_with_parent(int(launcher))
    # The launcher says of the rank that failed first why it did, if that rank leaves it word.
    record(_in_group)(function, backend, timeout, arguments)


def _in_group(function: Callable[..., None], backend: str, timeout: float, arguments: tuple[Any, ...]) -> None:
    with process_group(backend=backend, timeout=timeout) as rank:
        function(rank, *arguments)


def _endpoint(options: argparse.Namespace) -> str:
    if options.nodes == 1:
        return "localhost:0"
    if not (options.rendezvous or "").startswith(TCP):
        raise TorchDdpError(
            f"launch: expected --rendezvous {TCP}host:port for {options.nodes} nodes with --max-restarts, "
            f"got {options.rendezvous}. Name the first machine and a port of it."
        )
    return str(options.rendezvous).removeprefix(TCP)


def _there(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if hasattr(signal, name)]
